package dev.bucksaw;

import java.io.BufferedInputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.zip.GZIPInputStream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLServerSocket;

/** A server of HTTP whose answers are raw bytes, so that they may be wrong in any way. */
final class StubServer implements AutoCloseable {
  /** A request. The names of headers are in small letters. */
  record Request(String method, String target, Map<String, String> headers, byte[] body) {
    String text() {
      if (!"gzip".equals(headers.get("content-encoding"))) {
        return new String(body, StandardCharsets.UTF_8);
      }
      try (InputStream plain = new GZIPInputStream(new ByteArrayInputStream(body))) {
        return new String(plain.readAllBytes(), StandardCharsets.UTF_8);
      } catch (IOException e) {
        throw new AssertionError(e);
      }
    }

    int records() {
      return (int) text().chars().filter(c -> c == '\n').count();
    }

    String key() {
      return headers.get("idempotency-key");
    }
  }

  /** Writes an answer. The connection is kept open if it returns true. */
  @FunctionalInterface
  interface Handler {
    boolean answer(Request request, Socket socket) throws IOException, InterruptedException;
  }

  private final ServerSocket listener;
  private final Handler handler;
  private final String scheme;
  private final List<Request> requests = new CopyOnWriteArrayList<>();
  private final List<Socket> sockets = new CopyOnWriteArrayList<>();

  StubServer(Handler handler) throws IOException {
    this(handler, "http", new ServerSocket(0, 50, InetAddress.getLoopbackAddress()));
  }

  /** A server that speaks TLS, and demands certificates of its clients if the test says so. */
  static StubServer tls(Handler handler, SSLContext context, boolean demandsCertificates)
      throws IOException {
    SSLServerSocket listener =
        (SSLServerSocket)
            context
                .getServerSocketFactory()
                .createServerSocket(0, 50, InetAddress.getLoopbackAddress());
    listener.setNeedClientAuth(demandsCertificates);
    return new StubServer(handler, "https", listener);
  }

  private StubServer(Handler handler, String scheme, ServerSocket listener) {
    this.handler = handler;
    this.scheme = scheme;
    this.listener = listener;
    Thread acceptor = new Thread(this::accept, "stub");
    acceptor.setDaemon(true);
    acceptor.start();
  }

  /** Accepts all batches. */
  static Handler accepting() {
    return (request, socket) -> {
      answer(socket, 200, "", accepted(request));
      return true;
    };
  }

  static String accepted(Request request) {
    return "{\"accepted\":" + request.records() + ",\"rejected\":0}";
  }

  static void answer(Socket socket, int status, String headers, String body) throws IOException {
    byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
    write(
        socket,
        "HTTP/1.1 " + status + " x\r\n" + headers + "Content-Length: " + bytes.length + "\r\n\r\n");
    socket.getOutputStream().write(bytes);
    socket.getOutputStream().flush();
  }

  static void write(Socket socket, String text) throws IOException {
    OutputStream out = socket.getOutputStream();
    out.write(text.getBytes(StandardCharsets.UTF_8));
    out.flush();
  }

  String address() {
    return scheme + "://127.0.0.1:" + listener.getLocalPort();
  }

  List<Request> requests() {
    return requests;
  }

  /** Connections that are open at the moment, as far as this side knows. */
  long openConnections() {
    return sockets.stream().filter(socket -> !socket.isClosed()).count();
  }

  private void accept() {
    while (!listener.isClosed()) {
      try {
        Socket socket = listener.accept();
        sockets.add(socket);
        Thread thread = new Thread(() -> serve(socket), "stub-connection");
        thread.setDaemon(true);
        thread.start();
      } catch (IOException e) {
        return;
      }
    }
  }

  private void serve(Socket socket) {
    try (socket) {
      InputStream in = new BufferedInputStream(socket.getInputStream());
      Request request;
      while ((request = read(in)) != null) {
        requests.add(request);
        if (!handler.answer(request, socket)) {
          return;
        }
      }
    } catch (IOException | InterruptedException e) {
      // The other side has gone.
      return;
    }
  }

  private static Request read(InputStream in) throws IOException {
    String first = line(in);
    if (first == null) {
      return null;
    }
    Map<String, String> headers = new TreeMap<>();
    String line;
    while (!(line = line(in)).isEmpty()) {
      int colon = line.indexOf(':');
      headers.put(
          line.substring(0, colon).toLowerCase(Locale.ROOT), line.substring(colon + 1).trim());
    }
    int length = Integer.parseInt(headers.getOrDefault("content-length", "0"));
    byte[] body = in.readNBytes(length);
    if (body.length < length) {
      throw new IOException("incomplete request");
    }
    String[] parts = first.split(" ");
    return new Request(parts[0], parts[1], headers, body);
  }

  private static String line(InputStream in) throws IOException {
    ByteArrayOutputStream line = new ByteArrayOutputStream();
    int b;
    while ((b = in.read()) != '\n') {
      if (b < 0) {
        return null;
      }
      if (b != '\r') {
        line.write(b);
      }
    }
    return line.toString(StandardCharsets.UTF_8);
  }

  @Override
  public void close() throws IOException {
    listener.close();
    for (Socket socket : sockets) {
      socket.close();
    }
  }
}
