package dev.bucksaw;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The client and the real program. */
@Timeout(120)
class NodeTest {
  private static final int RECORDS = 100_000;

  @TempDir Path directory;

  @Test
  void recordsAreStoredOnceWhileTheNodeIsKilledTwice() throws Exception {
    try (Node node = new Node(directory);
        Client client =
            Client.builder()
                .endpoints(node.address())
                .label("service.name", "restarts")
                .batchRecords(2000)
                .closeAtExit(false)
                .onError(failure -> {})
                .build()) {
      AtomicInteger next = new AtomicInteger();
      log(client, next, 30_000);
      awaitAcknowledged(client, 10_000);
      node.kill();
      // Some of these attempts fail: nothing listens now.
      log(client, next, 60_000);
      awaitRetries(client, 1);
      node.start();
      awaitAcknowledged(client, 40_000);
      Thread logging = new Thread(() -> log(client, next, RECORDS));
      logging.start();
      node.kill();
      logging.join();
      long retries = client.stats().retries();
      awaitRetries(client, retries + 1);
      node.start();
      assertTrue(client.flush(Duration.ofSeconds(60)), () -> client.stats().toString());

      Stats stats = client.stats();
      assertEquals(RECORDS, stats.logged());
      assertEquals(RECORDS, stats.acknowledged());
      assertEquals(0, stats.bufferedRecords() + stats.bufferedBytes());

      QueryRequest all = QueryRequest.of("service.name=restarts").from("1h").to("now+1h");
      assertEquals(RECORDS, client.count(all));
      BitSet seen = new BitSet(RECORDS);
      int found = 0;
      try (QueryResult result = client.query(all)) {
        while (result.hasNext()) {
          seen.set(Integer.parseInt(result.next().line().substring("record ".length())));
          found++;
        }
        assertEquals(RECORDS, result.stats().orElseThrow().matched());
      }
      assertEquals(RECORDS, found);
      assertEquals(RECORDS, seen.cardinality());
    }
  }

  private static void log(Client client, AtomicInteger next, int end) {
    Thread[] threads = new Thread[2];
    for (int i = 0; i < threads.length; i++) {
      threads[i] =
          new Thread(
              () -> {
                int number;
                while ((number = next.getAndIncrement()) < end) {
                  client.log(Level.INFO, "record " + number, Map.of("number", number));
                }
                next.getAndDecrement();
              });
    }
    Arrays.stream(threads).forEach(Thread::start);
    for (Thread thread : threads) {
      try {
        thread.join();
      } catch (InterruptedException e) {
        throw new AssertionError(e);
      }
    }
  }

  private static void awaitAcknowledged(Client client, long records) throws InterruptedException {
    Await.until(() -> client.stats().acknowledged() >= records);
  }

  private static void awaitRetries(Client client, long retries) throws InterruptedException {
    Await.until(() -> client.stats().retries() >= retries);
  }

  @Test
  void recordsComeBackAsTheyWereLogged() throws Exception {
    try (Node node = new Node(directory);
        Client client =
            Client.builder()
                .endpoints(node.address())
                .label("service.name", "shop")
                .label("host.name", "a b&c")
                .closeAtExit(false)
                .build()) {
      Instant time = Instant.now().minusSeconds(60).minusNanos(1);
      client.log(
          LogRecord.of(Level.ERROR, "payment \"failed\"\n  at line 2 é 😀\n")
              .at(time)
              .logger("shop.Payments")
              .thread("main")
              .with("order", 4711)
              .with("user", Map.of("id", "u7"))
              .with("tags", List.of("a", 1))
              .with("nothing", null)
              .exception(new IllegalStateException("no money", new RuntimeException("cause"))));
      assertTrue(client.flush(Duration.ofSeconds(30)));
      try (QueryResult result = client.query(QueryRequest.of("order=4711"))) {
        StoredRecord record = result.next();
        assertEquals("payment \"failed\"\n  at line 2 é 😀", record.line());
        assertEquals(time.getEpochSecond(), record.time().getEpochSecond());
        assertEquals(time.getNano() / 1000, record.time().getNano() / 1000);
        assertEquals(Map.of("service.name", "shop", "host.name", "a b&c"), record.labels());
        Map<String, String> attributes = new java.util.HashMap<>(record.attributes());
        String trace = attributes.remove("exception.stacktrace");
        assertTrue(trace.contains("Caused by: java.lang.RuntimeException: cause"));
        assertEquals(
            Map.of(
                "level", "error",
                "logger.name", "shop.Payments",
                "thread.name", "main",
                "order", "4711",
                "user.id", "u7",
                "tags", "[\"a\",1]",
                "exception.type", "java.lang.IllegalStateException",
                "exception.message", "no money"),
            attributes);
        assertEquals(List.of(), result.stream().toList());
        assertEquals(1, result.stats().orElseThrow().matched());
      }
      assertEquals(1, client.count(QueryRequest.of("@level=error").from(time).to(Instant.now())));
    }
  }

  @Test
  void tailAndErrorsOfExpressions() throws Exception {
    try (Node node = new Node(directory);
        Client client = Client.builder().endpoints(node.address()).closeAtExit(false).build()) {
      QueryException refused =
          assertThrows(QueryException.class, () -> client.query(QueryRequest.of("level=")));
      assertEquals(QueryException.Kind.REFUSED, refused.kind());
      assertEquals(400, refused.status());
      assertTrue(refused.getMessage().contains("expected a value"), refused.getMessage());
      assertEquals(
          QueryException.Kind.REFUSED,
          assertThrows(QueryException.class, () -> client.tail("(")).kind());
      try (Tail tail = client.tail("wanted")) {
        client.log(Level.INFO, "other");
        client.log(Level.INFO, "wanted 1");
        client.log(Level.INFO, "wanted 2");
        client.flush(Duration.ofSeconds(30));
        assertEquals("wanted 1", ((StoredRecord) tail.next()).line());
        assertEquals("wanted 2", ((StoredRecord) tail.next()).line());
      }
    }
  }

  @Test
  void oldestAndNewestWithALimit() throws Exception {
    try (Node node = new Node(directory);
        Client client = Client.builder().endpoints(node.address()).closeAtExit(false).build()) {
      Instant start = Instant.now().minusSeconds(100);
      for (int i = 0; i < 50; i++) {
        client.log(LogRecord.of(null, "number " + i).at(start.plusSeconds(i)));
      }
      client.flush(Duration.ofSeconds(30));
      try (QueryResult result = client.query(QueryRequest.of("number").limit(2))) {
        assertEquals(
            List.of("number 0", "number 1"), result.stream().map(StoredRecord::line).toList());
      }
      try (QueryResult result = client.query(QueryRequest.of("number").limit(1).newestFirst())) {
        assertEquals(List.of("number 49"), result.stream().map(StoredRecord::line).toList());
      }
    }
  }
}
