"""Takes what is posted to it on localhost and writes it to its output, a line each: what alerts are sent to."""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Taker(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        print(self.rfile.read(int(self.headers["Content-Length"])).decode().strip(), flush=True)
        self.send_response(200)
        self.end_headers()


HTTPServer(("127.0.0.1", int(sys.argv[1])), Taker).serve_forever()
