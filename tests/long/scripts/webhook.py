"""Receive alerts: print each request that is posted to a port of localhost as a line."""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Taker(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        print(self.rfile.read(int(self.headers["Content-Length"])).decode().strip(), flush=True)
        self.send_response(200)
        self.end_headers()


HTTPServer(("127.0.0.1", int(sys.argv[1])), Taker).serve_forever()
