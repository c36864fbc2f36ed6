package dev.bucksaw;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The client and a server that answers as the test wants. */
@Timeout(60)
class ClientTest {
  private static final Duration LONG = Duration.ofSeconds(30);

  private final List<Failure> failures = new CopyOnWriteArrayList<>();

  private Client.Builder client(StubServer... servers) {
    String[] endpoints = new String[servers.length];
    for (int i = 0; i < servers.length; i++) {
      endpoints[i] = servers[i].address();
    }
    return Client.builder().endpoints(endpoints).closeAtExit(false).onError(failures::add);
  }

  private static void assertInvariant(Stats stats) {
    assertEquals(
        stats.logged(),
        stats.acknowledged() + stats.rejected() + stats.droppedTotal() + stats.bufferedRecords(),
        stats::toString);
  }

  /** Handlers one after the other; the last one for all further requests. */
  private static StubServer.Handler sequence(StubServer.Handler... handlers) {
    AtomicInteger next = new AtomicInteger();
    return (request, socket) ->
        handlers[Math.min(next.getAndIncrement(), handlers.length - 1)].answer(request, socket);
  }

  private static StubServer.Handler status(int status, String headers, String body) {
    return (request, socket) -> {
      StubServer.answer(socket, status, headers, body);
      return true;
    };
  }

  private static StubServer.Handler raw(String answer) {
    return (request, socket) -> {
      StubServer.write(socket, answer);
      return false;
    };
  }

  @Test
  void requestsHaveWhatTheContractSays() throws Exception {
    try (StubServer server = new StubServer(StubServer.accepting());
        Client client = client(server).label("service.name", "shop").build()) {
      client.log(Level.INFO, "small");
      assertTrue(client.flush(LONG));
      client.log(Level.INFO, "x".repeat(2000));
      assertTrue(client.flush(LONG));
      StubServer.Request small = server.requests().get(0);
      assertEquals("POST", small.method());
      assertEquals(
          "/api/v1/ingest?durability=durable&time_field=time&message_field=message"
              + "&label=service.name%3Dshop",
          small.target());
      assertEquals("application/x-ndjson", small.headers().get("content-type"));
      assertEquals(null, small.headers().get("content-encoding"));
      assertEquals('7', small.key().charAt(14));
      StubServer.Request large = server.requests().get(1);
      assertEquals("gzip", large.headers().get("content-encoding"));
      assertTrue(large.text().contains("x".repeat(2000)));
      assertFalse(small.key().equals(large.key()));
    }
  }

  @Test
  void everyAttemptHasTheSameKeyAndBody() throws Exception {
    String incomplete = "{\"accepted\":1,\"rejected\":0}";
    assertRetried(
        status(503, "", "{\"error\":\"busy\"}"), status(200, "", "<html>"), raw("HTTP/1.1 200"));
    assertTrue(failures.get(0).message().endsWith(": status 503: busy"));
    assertRetried(
        raw(""),
        raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + incomplete),
        raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"acc"),
        raw("not HTTP at all\r\n\r\n"));
  }

  private void assertRetried(StubServer.Handler... failing) throws Exception {
    failures.clear();
    StubServer.Handler[] handlers = Arrays.copyOf(failing, failing.length + 1);
    handlers[failing.length] = StubServer.accepting();
    try (StubServer server = new StubServer(sequence(handlers));
        Client client = client(server).build()) {
      client.log(Level.INFO, "x".repeat(2000));
      assertTrue(client.flush(LONG));
      assertEquals(handlers.length, server.requests().size());
      for (StubServer.Request request : server.requests()) {
        assertEquals(server.requests().get(0).key(), request.key());
        assertArrayEquals(server.requests().get(0).body(), request.body());
      }
      assertEquals(1, client.stats().acknowledged());
      assertEquals(failing.length, client.stats().retries());
      assertEquals(failing.length, failures.size());
      assertTrue(failures.stream().allMatch(f -> f.kind() == Failure.Kind.ATTEMPT));
    }
  }

  @Test
  void answersMayArriveByteByByte() throws Exception {
    StubServer.Handler slow =
        (request, socket) -> {
          String answer =
              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                  + "d\r\n{\"accepted\":1\r\ne\r\n,\"rejected\":0}\r\n0\r\n\r\n";
          for (char c : answer.toCharArray()) {
            StubServer.write(socket, String.valueOf(c));
          }
          return true;
        };
    try (StubServer server = new StubServer(slow);
        Client client = client(server).build()) {
      client.log(Level.INFO, "m");
      assertTrue(client.flush(LONG));
      assertEquals(1, client.stats().acknowledged());
    }
    assertEquals(List.of(), failures);
  }

  @Test
  void endpointsTakeTurnsAndTheOneThatAnswersIsKept() throws Exception {
    String closed;
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      closed = "http://127.0.0.1:" + socket.getLocalPort();
    }
    try (StubServer busy = new StubServer(status(503, "", ""));
        StubServer good = new StubServer(StubServer.accepting());
        Client client = client(busy).endpoints(closed, busy.address(), good.address()).build()) {
      client.log(Level.INFO, "1");
      assertTrue(client.flush(LONG));
      client.log(Level.INFO, "2");
      assertTrue(client.flush(LONG));
      assertEquals(1, busy.requests().size());
      assertEquals(2, good.requests().size());
      assertEquals(busy.requests().get(0).key(), good.requests().get(0).key());
      assertEquals(2, client.stats().retries());
    }
  }

  @Test
  void serversThatNeverFinishAreTimeOuts() throws Exception {
    AtomicBoolean running = new AtomicBoolean(true);
    StubServer.Handler silent =
        (request, socket) -> {
          socket.getInputStream().read();
          return false;
        };
    StubServer.Handler unfinished =
        (request, socket) -> {
          StubServer.write(socket, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{");
          socket.getInputStream().read();
          return false;
        };
    StubServer.Handler endless =
        (request, socket) -> {
          StubServer.write(socket, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
          while (running.get()) {
            StubServer.write(socket, "400\r\n" + " ".repeat(0x400) + "\r\n");
          }
          return false;
        };
    StubServer.Handler endlessHead =
        (request, socket) -> {
          StubServer.write(socket, "HTTP/1.1 200 OK\r\n");
          while (running.get()) {
            StubServer.write(socket, "x: " + "y".repeat(1000) + "\r\n");
          }
          return false;
        };
    try (StubServer server =
            new StubServer(
                sequence(silent, unfinished, endless, endlessHead, StubServer.accepting()));
        Client client = client(server).requestTime(Duration.ofMillis(300)).build()) {
      client.log(Level.INFO, "m");
      assertTrue(client.flush(LONG));
      assertTrue(server.requests().size() >= 5);
      assertEquals(1, client.stats().acknowledged());
    } finally {
      running.set(false);
    }
  }

  @Test
  void retryAfterIsObeyedUntilClosing() throws Exception {
    StubServer.Handler busy = status(503, "Retry-After: 60\r\n", "");
    try (StubServer server = new StubServer(sequence(busy, busy, busy, StubServer.accepting()))) {
      Client client = client(server).closeTime(LONG).build();
      client.log(Level.INFO, "m");
      // Without the header the second attempt follows within 100 ms.
      assertFalse(client.flush(Duration.ofMillis(500)));
      assertEquals(1, server.requests().size());
      client.close();
      assertEquals(4, server.requests().size());
      assertEquals(3, client.stats().retries());
      assertEquals(1, client.stats().acknowledged());
    }
  }

  @Test
  void refusedBatchesAreDroppedAndReported() throws Exception {
    try (StubServer server =
            new StubServer(
                sequence(status(400, "", "{\"error\":\"no\\nlabel\"}"), StubServer.accepting()));
        Client client = client(server).build()) {
      client.log(Level.INFO, "1");
      client.log(Level.INFO, "2");
      assertTrue(client.flush(LONG));
      client.log(Level.INFO, "3");
      assertTrue(client.flush(LONG));
      assertEquals(2, client.stats().dropped(DropReason.REFUSED));
      assertEquals(1, client.stats().acknowledged());
      assertEquals(0, client.stats().retries());
      assertEquals(Failure.Kind.REFUSED, failures.get(0).kind());
      assertEquals(2, failures.get(0).records());
      assertTrue(failures.get(0).message().endsWith(": no\nlabel"));
      assertInvariant(client.stats());
    }
  }

  @Test
  void rejectedRecordsAreCounted() throws Exception {
    try (StubServer server =
            new StubServer(
                sequence(
                    status(
                        200,
                        "",
                        "{\"accepted\":1,\"rejected\":2,\"errors\":[\"line 2: bad\",{\"a\":[]},[]]}"),
                    // More than there are.
                    status(200, "", "{\"accepted\":0,\"rejected\":9}")));
        Client client = client(server).build()) {
      client.log(Level.INFO, "1");
      client.log(Level.INFO, "2");
      client.log(Level.INFO, "3");
      assertTrue(client.flush(LONG));
      assertEquals(2, client.stats().rejected());
      assertEquals(1, client.stats().acknowledged());
      client.log(Level.INFO, "4");
      assertTrue(client.flush(LONG));
      assertEquals(3, client.stats().rejected());
      assertInvariant(client.stats());
      assertEquals(Failure.Kind.REJECTED, failures.get(0).kind());
      assertEquals(2, failures.get(0).records());
      assertEquals("line 2: bad", failures.get(0).message());
    }
  }

  @Test
  void batchesWithOldKeysAreDropped() throws Exception {
    AtomicLong clock = new AtomicLong(System.currentTimeMillis());
    StubServer.Handler later =
        (request, socket) -> {
          clock.addAndGet(Duration.ofDays(6).toMillis() + 60_000);
          StubServer.answer(socket, 503, "", "");
          return true;
        };
    try (StubServer server = new StubServer(later);
        Client client = client(server).unixMillis(clock::get).build()) {
      client.log(Level.INFO, "m");
      assertTrue(client.flush(LONG));
      assertEquals(1, server.requests().size());
      assertEquals(1, client.stats().dropped(DropReason.TOO_OLD));
      assertInvariant(client.stats());
    }
  }

  @Test
  void tooLargeRecordsAreDropped() throws Exception {
    try (StubServer server = new StubServer(StubServer.accepting());
        Client client = client(server).build()) {
      client.log(Level.INFO, "m", Map.of("a", "x".repeat(2 << 20)));
      client.log(Level.INFO, "m", Map.of("a", "x".repeat(100_000)));
      client.log(Level.INFO, "x".repeat(3 << 20));
      assertTrue(client.flush(LONG));
      assertEquals(1, client.stats().dropped(DropReason.TOO_LARGE));
      assertEquals(2, client.stats().acknowledged());
      assertInvariant(client.stats());
    }
    assertEquals(Failure.Kind.TOO_LARGE, failures.get(0).kind());
  }

  @Test
  void batchesEndAtTheirLimits() throws Exception {
    try (StubServer server = new StubServer(StubServer.accepting());
        Client client = client(server).batchRecords(10).batchBytes(5000).batchAge(LONG).build()) {
      for (int i = 0; i < 25; i++) {
        client.log(Level.INFO, "m");
      }
      Await.until(() -> client.stats().acknowledged() >= 20);
      assertEquals(5, client.stats().bufferedRecords());
      for (int i = 0; i < 4; i++) {
        client.log(Level.INFO, "x".repeat(2000));
      }
      assertTrue(client.flush(LONG));
      List<Integer> sizes = server.requests().stream().map(StubServer.Request::records).toList();
      assertEquals(List.of(10, 10, 7, 2), sizes);
    }
  }

  @Test
  void anOldBatchIsSentWithoutFlush() throws Exception {
    try (StubServer server = new StubServer(StubServer.accepting());
        Client client = client(server).batchAge(Duration.ofMillis(20)).build()) {
      for (int i = 1; i <= 3; i++) {
        int target = i;
        client.log(Level.INFO, "m");
        Await.until(() -> client.stats().acknowledged() >= target);
      }
    }
  }

  /** A server that answers when the latch is open. */
  private static StubServer.Handler waiting(CountDownLatch open) {
    return (request, socket) -> {
      open.await();
      StubServer.answer(socket, 200, "", StubServer.accepted(request));
      return true;
    };
  }

  @Test
  void aFullBufferDropsAndCounts() throws Exception {
    CountDownLatch open = new CountDownLatch(1);
    try (StubServer server = new StubServer(waiting(open));
        Client client = client(server).bufferBytes(10_000).build()) {
      for (int i = 0; i < 100; i++) {
        client.log(Level.INFO, "x".repeat(1000));
      }
      Stats stats = client.stats();
      assertEquals(100, stats.logged());
      assertEquals(9, stats.bufferedRecords());
      assertEquals(91, stats.dropped(DropReason.FULL));
      assertTrue(stats.bufferedBytes() <= 10_000);
      assertInvariant(stats);
      open.countDown();
      assertTrue(client.flush(LONG));
      client.log(Level.INFO, "again");
      assertTrue(client.flush(LONG));
      assertEquals(10, client.stats().acknowledged());
      assertEquals(0, client.stats().bufferedBytes());
    }
    assertEquals(
        91,
        failures.stream()
            .filter(f -> f.kind() == Failure.Kind.FULL)
            .mapToLong(Failure::records)
            .sum());
  }

  @Test
  void aFullBufferBlocksUntilThereIsSpace() throws Exception {
    CountDownLatch open = new CountDownLatch(1);
    try (StubServer server = new StubServer(waiting(open));
        Client client =
            client(server)
                .bufferBytes(10_000)
                .whenFull(WhenFull.BLOCK)
                .blockTime(LONG)
                .batchAge(Duration.ofHours(1))
                .build()) {
      Thread logging =
          new Thread(
              () -> {
                for (int i = 0; i < 100; i++) {
                  client.log(Level.INFO, "x".repeat(1000));
                }
              });
      logging.start();
      // It waits: the buffer is full, and nothing is acknowledged.
      Await.until(() -> logging.getState() == Thread.State.TIMED_WAITING);
      assertEquals(9, client.stats().bufferedRecords());
      open.countDown();
      logging.join();
      assertTrue(client.flush(LONG));
      assertEquals(100, client.stats().acknowledged());
    }
  }

  @Test
  void blockingEndsAfterTheBlockTime() throws Exception {
    CountDownLatch open = new CountDownLatch(1);
    try (StubServer server = new StubServer(waiting(open));
        Client client =
            client(server)
                .bufferBytes(5000)
                .whenFull(WhenFull.BLOCK)
                .blockTime(Duration.ofMillis(1))
                .build()) {
      for (int i = 0; i < 10; i++) {
        client.log(Level.INFO, "x".repeat(1000));
      }
      // One that never fits does not wait.
      client.log(Level.INFO, "x".repeat(100_000));
      assertEquals(7, client.stats().dropped(DropReason.FULL));
      assertInvariant(client.stats());
      // An interrupted caller does not wait either, and stays interrupted.
      Thread.currentThread().interrupt();
      client.log(Level.INFO, "x".repeat(1000));
      assertTrue(Thread.interrupted());
      assertEquals(8, client.stats().dropped(DropReason.FULL));
      open.countDown();
    }
  }

  @Test
  void flushEndsAtItsDeadline() throws Exception {
    CountDownLatch open = new CountDownLatch(1);
    try (StubServer server = new StubServer(waiting(open));
        Client client = client(server).build()) {
      assertTrue(client.flush(Duration.ZERO));
      client.log(Level.INFO, "m");
      assertFalse(client.flush(Duration.ofMillis(20)));
      assertFalse(client.flush(Duration.ofSeconds(-1)));
      Thread.currentThread().interrupt();
      assertFalse(client.flush(LONG));
      assertTrue(Thread.interrupted());
      assertEquals(1, client.stats().bufferedRecords());
      open.countDown();
      assertTrue(client.flush(Duration.ofSeconds(Long.MAX_VALUE)));
      assertEquals(1, client.stats().acknowledged());
    }
  }

  @Test
  void closeEndsAtItsDeadlineAndDropsTheRest() throws Exception {
    CountDownLatch open = new CountDownLatch(1);
    try (StubServer server = new StubServer(waiting(open))) {
      Client client = client(server).batchRecords(2).closeTime(Duration.ofMillis(50)).build();
      for (int i = 0; i < 5; i++) {
        client.log(Level.INFO, "m");
      }
      client.close();
      assertEquals(5, client.stats().dropped(DropReason.CLOSED));
      assertEquals(0, client.stats().bufferedBytes());
      client.log(Level.INFO, "late");
      client.close();
      assertEquals(6, client.stats().dropped(DropReason.CLOSED));
      assertTrue(client.flush(LONG));
      assertInvariant(client.stats());
      open.countDown();
    }
    assertEquals(
        6,
        failures.stream()
            .filter(f -> f.kind() == Failure.Kind.CLOSED)
            .mapToLong(Failure::records)
            .sum());
  }

  @Test
  void closeSendsWhatIsInMemory() throws Exception {
    try (StubServer server = new StubServer(StubServer.accepting())) {
      Client client = client(server).batchAge(LONG).build();
      client.log(Level.INFO, "m");
      client.close();
      assertEquals(1, client.stats().acknowledged());
    }
  }

  @Test
  void closingFreesACallerThatWaits() throws Exception {
    CountDownLatch open = new CountDownLatch(1);
    try (StubServer server = new StubServer(waiting(open))) {
      Client client =
          client(server)
              .bufferBytes(1500)
              .whenFull(WhenFull.BLOCK)
              .blockTime(Duration.ofHours(1))
              .closeTime(Duration.ofMillis(50))
              .build();
      client.log(Level.INFO, "x".repeat(1000));
      Thread logging = new Thread(() -> client.log(Level.INFO, "x".repeat(1000)));
      logging.start();
      Await.until(() -> logging.getState() == Thread.State.TIMED_WAITING);
      client.close();
      logging.join();
      assertEquals(2, client.stats().dropped(DropReason.CLOSED));
      assertInvariant(client.stats());
      open.countDown();
    }
  }

  @Test
  void countersAreConsistentAtEveryMoment() throws Exception {
    Random random = new Random(7);
    StubServer.Handler moody =
        (request, socket) -> {
          switch (random.nextInt(5)) {
            case 0 -> StubServer.answer(socket, 500, "", "");
            case 1 -> StubServer.answer(socket, 400, "", "");
            case 2 ->
                StubServer.answer(
                    socket,
                    200,
                    "",
                    "{\"accepted\":" + (request.records() - 1) + ",\"rejected\":1}");
            default -> StubServer.answer(socket, 200, "", StubServer.accepted(request));
          }
          return true;
        };
    try (StubServer server = new StubServer(moody);
        Client client = client(server).batchRecords(50).bufferBytes(20_000).build()) {
      AtomicBoolean done = new AtomicBoolean();
      AtomicReference<Throwable> wrong = new AtomicReference<>();
      Thread watching =
          new Thread(
              () -> {
                try {
                  while (!done.get()) {
                    assertInvariant(client.stats());
                    Thread.onSpinWait();
                  }
                } catch (Throwable e) {
                  wrong.set(e);
                }
              });
      watching.start();
      List<Thread> threads = new ArrayList<>();
      for (int t = 0; t < 4; t++) {
        Thread thread =
            new Thread(
                () -> {
                  for (int i = 0; i < 2000; i++) {
                    client.log(Level.INFO, "message", Map.of("i", i));
                  }
                });
        thread.start();
        threads.add(thread);
      }
      for (Thread thread : threads) {
        thread.join();
      }
      assertTrue(client.flush(LONG));
      done.set(true);
      watching.join();
      assertEquals(null, wrong.get());
      Stats stats = client.stats();
      assertEquals(8000, stats.logged());
      assertEquals(0, stats.bufferedRecords());
      assertInvariant(stats);
      // Each acknowledged record arrived once: count those of distinct keys.
      Set<String> keys = new HashSet<>();
      server.requests().forEach(request -> keys.add(request.key()));
      long sent =
          keys.stream()
              .mapToLong(
                  key ->
                      server.requests().stream()
                          .filter(request -> request.key().equals(key))
                          .findFirst()
                          .orElseThrow()
                          .records())
              .sum();
      assertEquals(stats.logged() - stats.dropped(DropReason.FULL), sent);
    }
  }

  @Test
  void aConversionMayLogItself() throws Exception {
    try (StubServer server = new StubServer(StubServer.accepting());
        Client client = client(server).build()) {
      Object nested =
          new Object() {
            @Override
            public String toString() {
              client.log(Level.INFO, "inner");
              return "text";
            }
          };
      client.log(Level.INFO, "outer", Map.of("nested", nested));
      client.log(null);
      assertTrue(client.flush(LONG));
      String body = server.requests().get(0).text();
      List<String> lines = body.lines().toList();
      assertEquals(2, lines.size());
      assertTrue(lines.get(0).contains("\"inner\""));
      assertTrue(lines.get(1).contains("\"outer\""));
      assertTrue(lines.get(1).contains("\"nested\":\"text\""));
    }
  }

  @Test
  void theFunctionForErrorsMayFailFlushAndClose() throws Exception {
    try (StubServer server = new StubServer(status(400, "", ""))) {
      AtomicReference<Client> self = new AtomicReference<>();
      AtomicInteger calls = new AtomicInteger();
      CountDownLatch closed = new CountDownLatch(1);
      Client client =
          client(server)
              .onError(
                  failure -> {
                    if (calls.incrementAndGet() == 1) {
                      throw new IllegalStateException("mine");
                    }
                    self.get().flush(LONG);
                    self.get().close();
                    closed.countDown();
                  })
              .build();
      self.set(client);
      client.log(Level.INFO, "1");
      assertTrue(client.flush(LONG));
      client.log(Level.INFO, "2");
      assertTrue(closed.await(30, TimeUnit.SECONDS));
      assertEquals(2, client.stats().dropped(DropReason.REFUSED));
      assertInvariant(client.stats());
    }
  }

  @Test
  void withoutAFunctionErrorsAreWrittenOnceAMinute() {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    Failures failures = new Failures(null, new PrintStream(out, true, StandardCharsets.UTF_8));
    long minute = TimeUnit.MINUTES.toNanos(1);
    failures.write(Failure.Kind.FULL, 1, "a\nb\u001b[1m", 0);
    failures.write(Failure.Kind.FULL, 2, "c", 1);
    failures.write(Failure.Kind.REFUSED, 5, "d", 2);
    failures.write(Failure.Kind.FULL, 4, "e", minute - 1);
    failures.write(Failure.Kind.FULL, 8, "f", minute);
    assertEquals(
        List.of(
            "bucksaw: 1 record dropped: a b [1m",
            "bucksaw: 5 records dropped: d",
            "bucksaw: 14 records dropped: f"),
        out.toString(StandardCharsets.UTF_8).lines().toList());
  }

  @Test
  void threadsAndConnectionsEndWithTheClient() throws Exception {
    Set<Thread> before = Thread.getAllStackTraces().keySet();
    try (StubServer server = new StubServer(StubServer.accepting())) {
      Client client = client(server).closeAtExit(true).build();
      client.log(Level.INFO, "m");
      assertTrue(client.flush(LONG));
      assertEquals(1, server.openConnections());
      client.close();
      // The garbage collector ends the thread of the HTTP client of Java 17.
      Await.until(
          () -> {
            System.gc();
            return server.openConnections() == 0 && !hasNewThread(before);
          });
    }
  }

  private static boolean hasNewThread(Set<Thread> before) {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> !before.contains(thread))
        .anyMatch(
            thread ->
                thread.getName().startsWith("bucksaw")
                    || thread.getName().startsWith("HttpClient"));
  }

  /** Logs one record and returns. */
  static final class Program {
    public static void main(String[] args) {
      Client client = Client.builder().batchAge(Duration.ofHours(1)).build();
      client.log(Level.INFO, "last words");
      if (args.length > 0) {
        System.exit(3);
      }
    }
  }

  @Test
  void theEndOfTheProcessSendsWhatIsInMemory() throws Exception {
    for (String[] arguments : List.of(new String[] {}, new String[] {"exit"})) {
      try (StubServer server = new StubServer(StubServer.accepting())) {
        List<String> command = new ArrayList<>();
        command.add(ProcessHandle.current().info().command().orElseThrow());
        command.add("-cp");
        command.add(System.getProperty("java.class.path"));
        command.add(Program.class.getName());
        command.addAll(List.of(arguments));
        ProcessBuilder builder = new ProcessBuilder(command).inheritIO();
        builder.environment().put("BUCKSAW_ADDR", server.address());
        assertEquals(arguments.length == 0 ? 0 : 3, builder.start().waitFor());
        assertTrue(server.requests().get(0).text().contains("last words"));
      }
    }
  }

  @Test
  void invalidSettingsAreRefused() throws IOException {
    Client.Builder builder = Client.builder();
    for (String endpoint :
        List.of(
            "",
            ",",
            "http://",
            "ftp://a",
            "http://a:99999",
            "http://u:p@a",
            "http://a?q",
            "http://a b")) {
      assertThrows(
          IllegalArgumentException.class, () -> builder.endpoints(endpoint), () -> endpoint);
    }
    assertThrows(IllegalArgumentException.class, () -> builder.label("", "x"));
    assertThrows(IllegalArgumentException.class, () -> builder.label("a=b", "x"));
    assertThrows(IllegalArgumentException.class, () -> builder.batchBytes(0));
    assertThrows(IllegalArgumentException.class, () -> builder.batchRecords(100_000));
    assertThrows(IllegalArgumentException.class, () -> builder.bufferBytes(0));
    assertThrows(IllegalArgumentException.class, () -> builder.closeTime(Duration.ofNanos(-1)));
    assertEquals(
        List.of("http://127.0.0.1:7", "http://localhost:8", "HTTPS://b/x", "http://[::1]:9"),
        builder
            .endpoints(":7", "localhost:8, HTTPS://b/x/", "http://[::1]:9")
            .settings()
            .endpoints()
            .stream()
            .map(Object::toString)
            .toList());
  }
}
