mkdir -p "${saved%/*}"
if [ -e "$policy" ]; then cp -p "$policy" "$saved.part"; else : > "$saved.part"; fi || exit
sync "$saved.part" && mv "$saved.part" "$saved"
