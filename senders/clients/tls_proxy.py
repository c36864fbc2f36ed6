"""Accepts TLS and passes the bytes on to a port in plain text: tls_proxy.py CERTIFICATE KEY PORT. Prints its own port."""

import socket
import ssl
import sys
import threading


def pass_on(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    finally:
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def serve(client, context, port):
    try:
        secured = context.wrap_socket(client, server_side=True)
        plain = socket.create_connection(("127.0.0.1", port))
    except OSError:
        client.close()
        return
    threading.Thread(target=pass_on, args=(plain, secured), daemon=True).start()
    pass_on(secured, plain)


certificate, key, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    threading.Thread(target=serve, args=(connection, context, port), daemon=True).start()
