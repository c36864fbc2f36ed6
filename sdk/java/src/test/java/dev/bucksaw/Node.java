package dev.bucksaw;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** The real program as a node on a free port, with a directory of its own. */
public final class Node implements AutoCloseable {
  private final Path directory;
  private final int port;
  private Process process;

  /**
   * Starts a node and waits until it is ready.
   *
   * @param directory an empty directory
   */
  public Node(Path directory) throws IOException, InterruptedException {
    this.directory = directory;
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

  /** Starts the node again on the same port and directory. */
  public void start() throws IOException, InterruptedException {
    process =
        new ProcessBuilder(
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
                "")
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
      return HttpClient.newHttpClient()
              .send(request, HttpResponse.BodyHandlers.discarding())
              .statusCode()
          == 200;
    } catch (IOException e) {
      return false;
    }
  }

  /** The address of the node. */
  public String address() {
    return "http://127.0.0.1:" + port;
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
