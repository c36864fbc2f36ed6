package dev.bucksaw;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;

/** Answers to queries, counts and tails, whole and otherwise. */
@Timeout(60)
class ReadTest {
  private static final String CHUNKED = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  private static final String RECORD =
      "{\"id\":\"1\",\"time\":\"2026-11-26T02:00:00Z\",\"labels\":{},\"line\":\"a\"}\n";
  private static final String STATS = "{\"stats\":{\"matched\":1,\"partial\":false}}\n";

  private static Client client(StubServer... servers) {
    return Client.builder()
        .endpoints(Stream.of(servers).map(StubServer::address).toArray(String[]::new))
        .closeAtExit(false)
        .build();
  }

  private static void chunk(Socket socket, String text) throws IOException {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    StubServer.write(socket, Integer.toHexString(bytes.length) + "\r\n" + text + "\r\n");
  }

  private static QueryException failure(Iterator<?> answer) {
    return assertThrows(QueryException.class, () -> answer.forEachRemaining(item -> {}));
  }

  @TestFactory
  Stream<DynamicTest> answers() throws IOException {
    return Tree.maps(Tree.vectors("answers.json")).stream()
        .flatMap(
            vector ->
                Stream.of(
                    DynamicTest.dynamicTest(
                        vector.get("name") + ", parts", () -> answerInParts(vector)),
                    DynamicTest.dynamicTest(
                        vector.get("name") + ", over HTTP", () -> answerOverHttp(vector))));
  }

  private static void answerInParts(Map<String, Object> vector) {
    Iterator<Object> chunks = Tree.list(vector.get("chunks")).iterator();
    AnswerLines.Source source =
        new AnswerLines.Source() {
          @Override
          public ByteBuffer next() {
            return chunks.hasNext()
                ? ByteBuffer.wrap(((String) chunks.next()).getBytes(StandardCharsets.UTF_8))
                : null;
          }

          @Override
          public Throwable failure() {
            return null;
          }
        };
    check(vector, new QueryResult(source, false, () -> {}));
  }

  private static void answerOverHttp(Map<String, Object> vector) throws IOException {
    StubServer.Handler handler =
        (request, socket) -> {
          StubServer.write(socket, CHUNKED);
          for (Object chunk : Tree.list(vector.get("chunks"))) {
            chunk(socket, (String) chunk);
          }
          StubServer.write(socket, "0\r\n\r\n");
          return true;
        };
    try (StubServer server = new StubServer(handler);
        Client client = client(server);
        QueryResult result = client.query(QueryRequest.of("x"))) {
      check(vector, result);
    }
  }

  private static void check(Map<String, Object> vector, QueryResult result) {
    for (Map<String, Object> expected : Tree.maps(vector.get("records"))) {
      StoredRecord record = result.next();
      assertEquals(expected.get("id"), record.id());
      Instant time = record.time();
      assertEquals(
          new BigInteger((String) expected.get("time_unix_nano")),
          BigInteger.valueOf(time.getEpochSecond())
              .multiply(BigInteger.valueOf(1_000_000_000))
              .add(BigInteger.valueOf(time.getNano())));
      assertEquals(expected.get("labels"), record.labels());
      Map<String, Object> attributes = Tree.map(expected.get("attributes_base64"));
      assertEquals(attributes.keySet(), record.attributes().keySet());
      attributes.forEach(
          (name, value) -> {
            byte[] bytes = Base64.getDecoder().decode((String) value);
            assertArrayEquals(bytes, record.attributeBytes(name).orElseThrow());
            assertEquals(new String(bytes, StandardCharsets.UTF_8), record.attributes().get(name));
          });
      byte[] line = Base64.getDecoder().decode((String) expected.get("line_base64"));
      assertArrayEquals(line, record.lineBytes());
      assertEquals(new String(line, StandardCharsets.UTF_8), record.line());
      assertEquals(expected.get("cut"), record.cut());
      assertEquals(expected.get("unterminated"), record.unterminated());
    }
    String end = (String) vector.get("end");
    if (end.equals("complete")) {
      assertFalse(result.hasNext());
      assertThrows(NoSuchElementException.class, result::next);
    } else {
      QueryException failure = assertThrows(QueryException.class, result::hasNext);
      assertEquals(QueryException.Kind.valueOf(end.toUpperCase()), failure.kind());
      assertEquals(vector.getOrDefault("reasons", List.of()), failure.reasons());
      // It stays.
      assertEquals(failure, assertThrows(QueryException.class, result::hasNext));
    }
    assertEquals(
        Optional.ofNullable(vector.get("matched")), result.stats().map(QueryStats::matched));
  }

  @Test
  void requestsHaveTheirParameters() throws Exception {
    try (StubServer server =
            new StubServer(
                (request, socket) -> {
                  StubServer.answer(socket, 200, "", STATS);
                  return true;
                });
        Client client = client(server)) {
      QueryRequest request =
          QueryRequest.of("a=\"b c\" & +é")
              .from(Instant.parse("2026-11-26T02:00:00.5Z"))
              .to("now+1h")
              .limit(5)
              .newestFirst();
      try (QueryResult result = client.query(request)) {
        assertFalse(result.hasNext());
      }
      assertEquals(
          "/api/v1/query?q=a%3D%22b%20c%22%20%26%20%2B%C3%A9&from=2026-11-26T02%3A00%3A00.500Z"
              + "&to=now%2B1h&limit=5&order=desc",
          server.requests().get(0).target());
      assertEquals(null, server.requests().get(0).headers().get("accept-encoding"));
    }
  }

  @Test
  void partialAnswersAreAllowedOnRequest() throws Exception {
    String partial =
        RECORD
            + "{\"stats\":{\"matched\":1,\"partial\":true,\"partial_reasons\":[\"r\"],"
            + "\"timed_out\":true,\"hints\":[\"h\"],\"nodes_asked\":2,\"nodes_answered\":1,"
            + "\"nodes_missing\":[{\"node\":\"b\",\"reason\":\"down\",\"x\":{}}]}}";
    try (StubServer server =
            new StubServer(
                (request, socket) -> {
                  StubServer.answer(socket, 200, "", partial);
                  return true;
                });
        Client client = client(server);
        QueryResult result = client.query(QueryRequest.of("").allowPartial())) {
      assertEquals(List.of("a"), result.stream().map(StoredRecord::line).toList());
      assertEquals(
          new QueryStats(
              1,
              true,
              List.of("r"),
              true,
              2,
              1,
              List.of(new QueryStats.MissingNode("b", "", "down", "")),
              List.of("h")),
          result.stats().orElseThrow());
    }
  }

  @Test
  void linesOfSixteenMebibytesAreReadAndLongerOnesAreNot() throws Exception {
    int others = RECORD.length() - 1;
    for (int size : List.of(AnswerLines.LINE_BYTES_MAX, AnswerLines.LINE_BYTES_MAX + 1)) {
      String line = "a".repeat(size - others + 1);
      StubServer.Handler handler =
          (request, socket) -> {
            StubServer.write(socket, CHUNKED);
            chunk(socket, RECORD.replace("\"a\"", "\"" + line + "\""));
            chunk(socket, STATS);
            StubServer.write(socket, "0\r\n\r\n");
            return true;
          };
      try (StubServer server = new StubServer(handler);
          Client client = client(server);
          QueryResult result = client.query(QueryRequest.of(""))) {
        if (size == AnswerLines.LINE_BYTES_MAX) {
          assertEquals(line.length(), result.next().line().length());
          assertFalse(result.hasNext());
        } else {
          QueryException failure = failure(result);
          assertEquals(QueryException.Kind.INVALID, failure.kind());
          assertTrue(failure.getMessage().contains("longer than 16777216 bytes"));
        }
      }
    }
  }

  @Test
  void hostileAnswersAreErrors() throws Exception {
    for (String line :
        List.of(
            "[",
            "[".repeat(100_000),
            "{\"stats\":" + "{\"a\":".repeat(100_000),
            "{\"stats\":1}",
            "{\"stats\":{\"matched\":\"x\"}}",
            "{\"stats\":{\"matched\":1e999}}",
            "{\"stats\":{\"nodes_missing\":[1]}}",
            "{\"id\":1}",
            RECORD.replace("2026", "soon").trim(),
            RECORD.replace("\"line\":\"a\"", "\"line_base64\":\"?\"").trim(),
            RECORD.replace("{}", "{\"a\":{}}").trim(),
            RECORD.trim() + "x",
            "\u0000")) {
      try (StubServer server =
              new StubServer(
                  (request, socket) -> {
                    StubServer.answer(socket, 200, "", line + "\n" + STATS);
                    return true;
                  });
          Client client = client(server);
          QueryResult result = client.query(QueryRequest.of(""))) {
        assertEquals(QueryException.Kind.INVALID, failure(result).kind(), line);
      }
    }
  }

  @Test
  void anAnswerThatStopsArrivingIsATimeOut() throws Exception {
    StubServer.Handler handler =
        (request, socket) -> {
          if (request.target().contains("q=head")) {
            socket.getInputStream().read();
            return false;
          }
          StubServer.write(socket, CHUNKED);
          chunk(socket, RECORD);
          socket.getInputStream().read();
          return false;
        };
    try (StubServer server = new StubServer(handler);
        Client client = client(server)) {
      Duration idle = Duration.ofSeconds(1);
      assertEquals(
          QueryException.Kind.TIMEOUT,
          assertThrows(
                  QueryException.class, () -> client.query(QueryRequest.of("head").idleTime(idle)))
              .kind());
      try (QueryResult result = client.query(QueryRequest.of("body").idleTime(idle))) {
        assertEquals("a", result.next().line());
        assertEquals(QueryException.Kind.TIMEOUT, failure(result).kind());
      }
      // Both connections are closed.
      Await.until(() -> server.openConnections() == 0);
    }
  }

  @Test
  void aLostConnectionIsAnIncompleteAnswer() throws Exception {
    StubServer.Handler handler =
        (request, socket) -> {
          StubServer.write(socket, CHUNKED);
          chunk(socket, RECORD);
          socket.setSoLinger(true, 0);
          return false;
        };
    try (StubServer server = new StubServer(handler);
        Client client = client(server);
        QueryResult result = client.query(QueryRequest.of(""))) {
      QueryException failure = failure(result);
      assertEquals(QueryException.Kind.INCOMPLETE, failure.kind());
      assertTrue(failure.getCause() != null);
    }
  }

  @Test
  void closingEarlyEndsTheConnection() throws Exception {
    CountDownLatch ended = new CountDownLatch(1);
    StubServer.Handler handler =
        (request, socket) -> {
          try {
            StubServer.write(socket, CHUNKED);
            while (true) {
              chunk(socket, RECORD.repeat(1000));
            }
          } catch (IOException e) {
            ended.countDown();
            throw e;
          }
        };
    try (StubServer server = new StubServer(handler);
        Client client = client(server)) {
      QueryResult result = client.query(QueryRequest.of(""));
      result.next();
      result.close();
      assertTrue(ended.await(30, TimeUnit.SECONDS));
      assertEquals(QueryException.Kind.CLOSED, failure(result).kind());
    }
  }

  @Test
  void closingTheClientEndsItsAnswers() throws Exception {
    CountDownLatch opened = new CountDownLatch(1);
    StubServer.Handler handler =
        (request, socket) -> {
          if (request.target().contains("q=head")) {
            opened.countDown();
          } else {
            StubServer.write(socket, CHUNKED);
          }
          socket.getInputStream().read();
          return false;
        };
    try (StubServer server = new StubServer(handler)) {
      Client client = client(server);
      Tail tail = client.tail("");
      List<Object> ends = new ArrayList<>();
      Thread following = new Thread(() -> ends.add(tail.hasNext()));
      following.start();
      Thread opening =
          new Thread(
              () ->
                  ends.add(
                      assertThrows(
                              QueryException.class, () -> client.query(QueryRequest.of("head")))
                          .kind()));
      opening.start();
      opened.await();
      client.close();
      following.join();
      opening.join();
      assertTrue(ends.contains(false) && ends.contains(QueryException.Kind.CLOSED), ends::toString);
      assertEquals(
          QueryException.Kind.CLOSED,
          assertThrows(QueryException.class, () -> client.query(QueryRequest.of(""))).kind());
    }
  }

  @Test
  void theNextEndpointAnswersIfOneIsDownOrBusy() throws Exception {
    String closed;
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      closed = "http://127.0.0.1:" + socket.getLocalPort();
    }
    StubServer.Handler good =
        (request, socket) -> {
          StubServer.answer(socket, 200, "", "{\"count\":7,\"stats\":{\"partial\":false}}");
          return true;
        };
    StubServer.Handler busy =
        (request, socket) -> {
          StubServer.answer(socket, 503, "", "{\"error\":\"busy\"}");
          return true;
        };
    StubServer.Handler broken =
        (request, socket) -> {
          StubServer.answer(socket, 500, "", "{\"error\":\"broken\"}");
          return true;
        };
    StubServer.Handler silent =
        (request, socket) -> {
          socket.getInputStream().read();
          return false;
        };
    try (StubServer first = new StubServer(busy);
        StubServer second = new StubServer(broken);
        StubServer third = new StubServer(silent);
        StubServer last = new StubServer(good);
        Client client =
            Client.builder()
                .endpoints(
                    closed, first.address(), second.address(), third.address(), last.address())
                .closeAtExit(false)
                .build();
        Client none = Client.builder().endpoints(closed, first.address()).build()) {
      assertEquals(7, client.count(QueryRequest.of("").idleTime(Duration.ofSeconds(1))));
      QueryException failure =
          assertThrows(QueryException.class, () -> none.count(QueryRequest.of("")));
      assertEquals(QueryException.Kind.UNREACHABLE, failure.kind());
      assertEquals(503, failure.status());
      assertTrue(failure.getMessage().endsWith(": busy"));
      assertEquals(1, failure.getSuppressed().length);
    }
  }

  @Test
  void countsThatAreNotWholeAreErrors() throws Exception {
    Map<String, QueryException.Kind> answers =
        Map.of(
            "{\"count\":1}", QueryException.Kind.INVALID,
            "{\"count\":1,\"stats\":{}", QueryException.Kind.INVALID,
            "<html>", QueryException.Kind.INVALID,
            "{\"count\":1,\"stats\":{\"partial\":true,\"partial_reasons\":[\"r\"]}}",
                QueryException.Kind.PARTIAL);
    for (Map.Entry<String, QueryException.Kind> answer : answers.entrySet()) {
      try (StubServer server =
              new StubServer(
                  (request, socket) -> {
                    StubServer.answer(socket, 200, "", answer.getKey());
                    return true;
                  });
          Client client = client(server)) {
        assertEquals(
            answer.getValue(),
            assertThrows(QueryException.class, () -> client.count(QueryRequest.of(""))).kind());
        if (answer.getValue() == QueryException.Kind.PARTIAL) {
          assertEquals(1, client.count(QueryRequest.of("").allowPartial()));
        }
      }
    }
  }

  @Test
  void tailsDeliverRecordsAndNotices() throws Exception {
    StubServer.Handler handler =
        (request, socket) -> {
          StubServer.write(socket, CHUNKED);
          chunk(socket, RECORD + "\n{\"later\":1}\n{\"skipped_bytes\":5}\n");
          chunk(socket, "{\"skipped_records\":6}\n{\"lost\":\"down\",\"node\":\"b\"}\n");
          chunk(socket, "{\"joined\":true,\"node\":\"c\"}\n" + RECORD);
          StubServer.write(socket, "0\r\n\r\n");
          return true;
        };
    try (StubServer server = new StubServer(handler);
        Client client = client(server);
        Tail tail = client.tail("a b")) {
      assertEquals("a", ((StoredRecord) tail.next()).line());
      Optional<String> none = Optional.empty();
      assertEquals(new Notice(Notice.Kind.SKIPPED_BYTES, 5, none, none), tail.next());
      assertEquals(new Notice(Notice.Kind.SKIPPED_RECORDS, 6, none, none), tail.next());
      assertEquals(
          new Notice(Notice.Kind.LOST, 0, Optional.of("down"), Optional.of("b")), tail.next());
      assertEquals(new Notice(Notice.Kind.JOINED, 0, none, Optional.of("c")), tail.next());
      assertEquals("a", ((StoredRecord) tail.next()).line());
      assertEquals(QueryException.Kind.INCOMPLETE, failure(tail).kind());
      assertEquals("/api/v1/tail?q=a%20b", server.requests().get(0).target());
    }
  }
}
