package dev.bucksaw;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Tokens: where they come from, where they are sent, and that they are not shown. */
@Timeout(60)
class TokenTest {
  private static final Duration LONG = Duration.ofSeconds(30);
  private static final String SECRET = "bks_secret";

  @TempDir Path directory;

  private static Client.Builder client(String endpoint) {
    return Client.builder().endpoints(endpoint).closeAtExit(false).batchAge(Duration.ZERO);
  }

  @Test
  void vectorsOfTokens() throws Exception {
    for (Map<String, Object> vector : Tree.maps(Tree.vectors("tokens.json"))) {
      String name = (String) vector.get("name");
      String text = (String) vector.get("text");
      Optional<String> token = Optional.ofNullable((String) vector.get("token"));
      assertEquals(token, Credentials.parse(text), name);
      Path file = Files.writeString(directory.resolve("token"), text);
      if (token.isPresent()) {
        assertEquals(
            token.map(expected -> "Bearer " + expected),
            new Credentials(null, file, null).authorization(),
            name);
      } else {
        for (Client.Builder builder :
            List.of(client("localhost").token(text), client("localhost").tokenFile(file))) {
          String message =
              assertThrows(IllegalArgumentException.class, builder::build, name).getMessage();
          assertFalse(message.contains("bks"), message);
        }
      }
    }
  }

  @Test
  void vectorsOfEndpoints() throws Exception {
    for (Map<String, Object> vector : Tree.maps(Tree.vectors("token_endpoints.json"))) {
      String endpoint = (String) vector.get("endpoint");
      Client.Builder builder = client(endpoint).token(SECRET);
      if ((Boolean) vector.get("sent")) {
        builder.build().close();
      } else {
        String message =
            assertThrows(IllegalArgumentException.class, builder::build, endpoint).getMessage();
        assertTrue(message.contains("without encryption") && !message.contains(SECRET), message);
      }
      builder.insecureToken(true).build().close();
    }
  }

  @Test
  void whereTheTokenComesFrom() throws Exception {
    Path file = Files.writeString(directory.resolve("token"), "bks_file\n");
    assertEquals(Optional.empty(), new Credentials(null, null, null).authorization());
    assertEquals(Optional.empty(), new Credentials(null, null, " \n").authorization());
    assertEquals(
        Optional.of("Bearer bks_env"), new Credentials(null, null, " bks_env\n").authorization());
    assertEquals(
        Optional.of("Bearer bks_set"),
        new Credentials("bks_set ", null, "bks_env").authorization());
    assertEquals(
        Optional.of("Bearer bks_file"), new Credentials(null, file, "bks_env").authorization());
  }

  @Test
  void eachRequestHasTheToken() throws Exception {
    String stats = "{\"matched\":1,\"partial\":false,\"partial_reasons\":[]}";
    StubServer.Handler handler =
        (request, socket) -> {
          String answer = "{\"count\":1,\"stats\":" + stats + "}\n";
          String body = request.method().equals("POST") ? StubServer.accepted(request) : answer;
          StubServer.answer(socket, 200, "", body);
          return true;
        };
    try (StubServer server = new StubServer(handler);
        Client client = client(server.address()).token("bks_abc").build()) {
      client.log(Level.INFO, "a");
      assertTrue(client.flush(LONG));
      client.query(QueryRequest.of("")).close();
      client.count(QueryRequest.of(""));
      client.tail("").close();
      assertEquals(4, server.requests().size());
      for (StubServer.Request request : server.requests()) {
        assertEquals("Bearer bks_abc", request.headers().get("authorization"), request.target());
      }
    }
  }

  @Test
  void aTokenIsReplacedWithoutLoss() throws Exception {
    for (int status : new int[] {401, 403}) {
      StubServer.Handler handler =
          (request, socket) -> {
            if ("Bearer bks_new".equals(request.headers().get("authorization"))) {
              StubServer.answer(socket, 200, "", StubServer.accepted(request));
            } else {
              StubServer.answer(socket, status, "", "{\"error\":\"the credential has expired\"}");
            }
            return true;
          };
      Path file = Files.writeString(directory.resolve("token"), "bks_old");
      List<Failure> failures = new CopyOnWriteArrayList<>();
      try (StubServer server = new StubServer(handler);
          Client client = client(server.address()).tokenFile(file).onError(failures::add).build()) {
        client.log(Level.INFO, "a");
        Await.until(() -> !failures.isEmpty());
        String expected = server.address().substring(7) + ": the credential has expired";
        assertEquals(
            new Failure(Failure.Kind.DENIED, 1, expected, Optional.empty()), failures.get(0));
        Stats stats = client.stats();
        assertEquals(1, stats.bufferedRecords());
        assertEquals(0, stats.droppedTotal());
        assertTrue(stats.denied() > 0);
        QueryException refused =
            assertThrows(QueryException.class, () -> client.count(QueryRequest.of("")));
        assertEquals(expected, refused.getMessage());
        assertEquals(status, refused.status());
        Files.delete(file);
        refused = assertThrows(QueryException.class, () -> client.count(QueryRequest.of("")));
        assertEquals(
            expected + " (a changed file cannot be used: " + file + " does not exist)",
            refused.getMessage());
        Path fresh = Files.writeString(directory.resolve("new"), "bks_new\n");
        Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE);
        assertTrue(client.flush(LONG));
        stats = client.stats();
        assertEquals(1, stats.acknowledged());
        assertEquals(0, stats.droppedTotal());
        assertEquals(stats.retries(), stats.denied());
        assertEquals(
            Set.of(Failure.Kind.DENIED),
            failures.stream().map(Failure::kind).collect(Collectors.toSet()));
      }
    }
  }

  @Test
  void invalidSettingsAreRefused() throws Exception {
    Path file = Files.writeString(directory.resolve("token"), SECRET);
    for (Client.Builder builder :
        List.of(
            client("localhost").token(SECRET).tokenFile(file),
            client("localhost").tokenFile(directory),
            client("localhost").tokenFile(directory.resolve("missing")))) {
      assertFalse(
          text(assertThrows(IllegalArgumentException.class, builder::build)).contains(SECRET));
    }
    IllegalArgumentException failure =
        assertThrows(
            IllegalArgumentException.class, () -> new Credentials(null, null, SECRET + " more"));
    assertTrue(failure.getMessage().contains("BUCKSAW_TOKEN"));
    assertFalse(text(failure).contains(SECRET));
    for (String endpoint :
        List.of(
            "http://a:bks_secret@b",
            "bks_secret@b",
            "ftp://bks_secret@b",
            "a:bks_secret@b c",
            "a:0/bks_secret@b")) {
      Throwable refused =
          assertThrows(IllegalArgumentException.class, () -> Client.builder().endpoints(endpoint));
      assertFalse(text(refused).contains(SECRET), endpoint);
    }
  }

  private static String text(Throwable failure) {
    StringWriter text = new StringWriter();
    failure.printStackTrace(new PrintWriter(text));
    return text.toString();
  }

  @Test
  void aTokenIsNotShown() throws Exception {
    List<Failure> failures = new CopyOnWriteArrayList<>();
    Client.Builder builder =
        client("http://127.0.0.1:1").token(SECRET).closeTime(Duration.ZERO).onError(failures::add);
    try (Client client = builder.build()) {
      client.log(Level.INFO, "a");
      Await.until(() -> !failures.isEmpty());
      QueryException failure =
          assertThrows(QueryException.class, () -> client.count(QueryRequest.of("")));
      String shown =
          String.join(
              "\n",
              builder.toString(),
              builder.settings().toString(),
              client.toString(),
              client.stats().toString(),
              failures.toString(),
              text(failure),
              text(failures.get(0).cause().orElseThrow()),
              new Credentials(SECRET, null, null).toString());
      assertTrue(shown.contains("ConnectException"), shown);
      assertFalse(shown.contains(SECRET), shown);
    }
  }

  @Test
  void aNodeWithTokens() throws Exception {
    assumeTrue(Node.has("token"), "the program has no tokens");
    String token = Node.makeToken(directory);
    Path file = Files.writeString(directory.resolve("token"), "bks_wrong");
    try (Node node = Node.withTokens(directory);
        Client client = client(node.address()).tokenFile(file).onError(failure -> {}).build()) {
      client.log(Level.INFO, "recognised");
      Await.until(() -> client.stats().denied() > 0);
      QueryException refused =
          assertThrows(QueryException.class, () -> client.count(QueryRequest.of("")));
      assertEquals(401, refused.status());
      Files.writeString(file, token);
      assertTrue(client.flush(LONG));
      assertEquals(1, client.stats().acknowledged());
      try (QueryResult result = client.query(QueryRequest.of(""))) {
        assertEquals(List.of("recognised"), result.stream().map(StoredRecord::line).toList());
      }
    }
  }
}
