"""Allocate memory on every GPU with the CUDA driver API. If a GPU fails, exit with code 1 and print the reason."""

import ctypes
import sys

MEMORY = 64 << 20  # bytes
NOT_READY = 802  # CUDA_ERROR_SYSTEM_NOT_READY


def check(code: int, step: str) -> None:
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        remedy = (
            "; GPUs that NVSwitch connects need NVIDIA's Fabric Manager of exactly the driver's version: "
            "install and start nvidia-fabricmanager on this machine"
        )
        reason = (text.value or b"unknown error").decode()
        sys.exit(f"{step}: {reason} (CUDA error {code}){remedy if code == NOT_READY else ''}")


def allocate(number: int) -> None:
    device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuDeviceGet(ctypes.byref(device), number), f"GPU {number}")
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), f"context on GPU {number}")
    check(cuda.cuCtxSetCurrent(context), f"context on GPU {number}")
    check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(MEMORY)), f"{MEMORY} bytes on GPU {number}")
    check(cuda.cuMemFree_v2(address), f"GPU {number}")


cuda = ctypes.CDLL("libcuda.so.1")
check(cuda.cuInit(0), "CUDA")
count = ctypes.c_int()
check(cuda.cuDeviceGetCount(ctypes.byref(count)), "GPUs")
for gpu in range(count.value):
    allocate(gpu)
print(f"{count.value} GPUs")
sys.exit(None if count.value else "CUDA sees no GPU")
