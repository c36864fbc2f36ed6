package dev.bucksaw;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** The real program as a node on a free port, with a directory of its own. */
public final class Node implements AutoCloseable {
  private final Path directory;
  private final int port;
  private final List<String> flags;
  private final boolean tls;
  private Process process;

  /**
   * Starts a node and waits until it is ready.
   *
   * @param directory an empty directory
   */
  public Node(Path directory) throws IOException, InterruptedException {
    this(directory, false, List.of());
  }

  /**
   * Starts a node that speaks TLS and demands certificates of its clients. The program makes all of
   * them.
   *
   * @param directory an empty directory
   */
  public static Node tls(Path directory) throws IOException, InterruptedException {
    for (List<String> kind :
        List.of(List.of("ca"), List.of("node", "127.0.0.1"), List.of("client", "shop"))) {
      List<String> command = new ArrayList<>(List.of(program().toString(), "certs", "--dir"));
      command.add(directory.resolve("certs").toString());
      command.addAll(kind);
      Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
      String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      if (process.waitFor() != 0) {
        throw new AssertionError(output);
      }
    }
    return new Node(directory, true, List.of());
  }

  /**
   * Makes a token that may write and read, for a node with {@link #withTokens}.
   *
   * @param directory the directory of the node
   */
  public static String makeToken(Path directory) throws IOException, InterruptedException {
    Process process =
        new ProcessBuilder(
                program().toString(),
                "token",
                "add",
                "shop",
                "--auth-file=" + directory.resolve("auth.toml"),
                "--scope=ingest",
                "--scope=read")
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    String token = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    if (process.waitFor() != 0) {
      throw new AssertionError("no token is made");
    }
    return token;
  }

  /**
   * Starts a node that recognises its clients by tokens.
   *
   * @param directory the directory in which {@link #makeToken} has made one
   */
  public static Node withTokens(Path directory) throws IOException, InterruptedException {
    return new Node(directory, false, List.of("--auth-file=" + directory.resolve("auth.toml")));
  }

  private Node(Path directory, boolean tls, List<String> flags)
      throws IOException, InterruptedException {
    this.directory = directory;
    this.flags = flags;
    this.tls = tls;
    try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      port = free.getLocalPort();
    }
    start();
  }

  private static Path program() {
    String variable = System.getenv("BUCKSAW_BIN");
    List<Path> places =
        variable == null || variable.isEmpty()
            ? Stream.of("release", "debug")
                .map(build -> Path.of("../../target", build, "bucksaw").toAbsolutePath())
                .toList()
            : List.of(Path.of(variable));
    return places.stream()
        .filter(Files::isExecutable)
        .findFirst()
        .orElseThrow(
            () ->
                new AssertionError(
                    "no program bucksaw at " + places + ": build it, or set BUCKSAW_BIN"));
  }

  /** Whether the program has a command: BUCKSAW_BIN may be of an earlier version. */
  public static boolean has(String command) throws IOException, InterruptedException {
    return new ProcessBuilder(program().toString(), command, "--help")
            .redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
            .start()
            .waitFor()
        == 0;
  }

  /** A file that the node or its clients have, such as {@code shop.pem}. */
  public Path certificate(String name) {
    return directory.resolve("certs").resolve(name);
  }

  /** Starts the node again on the same port and directory. */
  public void start() throws IOException, InterruptedException {
    List<String> command =
        new ArrayList<>(
            List.of(
                program().toString(),
                "serve",
                "--data-dir",
                directory.resolve("data").toString(),
                "--listen",
                "127.0.0.1:" + port,
                "--listen-fast",
                "",
                "--listen-durable",
                "",
                "--listen-bulk",
                "",
                "--listen-cluster",
                ""));
    command.addAll(flags);
    if (tls) {
      command.add("--tls-cert=" + certificate("127.0.0.1.pem"));
      command.add("--tls-key=" + certificate("127.0.0.1.key"));
      command.add("--tls-client-ca=" + certificate("ca.pem"));
    }
    process =
        new ProcessBuilder(command)
            .redirectErrorStream(true)
            .redirectOutput(
                ProcessBuilder.Redirect.appendTo(directory.resolve("node.log").toFile()))
            .start();
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
    while (!ready()) {
      if (!process.isAlive() || System.nanoTime() > deadline) {
        throw new AssertionError(
            "the node does not start: " + Files.readString(directory.resolve("node.log")));
      }
      Thread.sleep(20);
    }
  }

  private boolean ready() throws InterruptedException {
    try {
      HttpRequest request =
          HttpRequest.newBuilder(URI.create(address() + "/-/ready"))
              .timeout(Duration.ofSeconds(5))
              .build();
      HttpClient.Builder client = HttpClient.newBuilder();
      if (tls) {
        Certificates own =
            new Certificates(
                certificate("ca.pem"), certificate("shop.pem"), certificate("shop.key"));
        client.sslContext(own.context().orElseThrow());
      }
      return client.build().send(request, HttpResponse.BodyHandlers.discarding()).statusCode()
          == 200;
    } catch (IOException e) {
      return false;
    }
  }

  /** The address of the node. */
  public String address() {
    return (tls ? "https" : "http") + "://127.0.0.1:" + port;
  }

  /** Ends the process at once, as a crash does. */
  public void kill() {
    process.destroyForcibly().onExit().join();
  }

  @Override
  public void close() {
    kill();
  }
}
