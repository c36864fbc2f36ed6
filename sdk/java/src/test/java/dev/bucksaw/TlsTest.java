package dev.bucksaw;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Endpoints with TLS. */
@Timeout(60)
class TlsTest {
  private static final Duration LONG = Duration.ofSeconds(30);
  private static final String STATS =
      "{\"count\":1,\"stats\":{\"matched\":1,\"partial\":false,\"partial_reasons\":[]}}\n";

  @TempDir Path directory;
  private Authority own;
  private Authority foreign;

  @BeforeEach
  void makeAuthorities() throws Exception {
    own = new Authority(directory.resolve("own"));
    foreign = new Authority(directory.resolve("foreign"));
  }

  private static StubServer.Handler accepting() {
    return (request, socket) -> {
      String body = request.method().equals("POST") ? StubServer.accepted(request) : STATS;
      StubServer.answer(socket, 200, "", body);
      return true;
    };
  }

  private StubServer server(Authority.Issued files) throws Exception {
    return StubServer.tls(accepting(), files.server(own.file()), false);
  }

  private static Client.Builder client(String endpoint) {
    return Client.builder()
        .endpoints(endpoint)
        .closeAtExit(false)
        .batchAge(Duration.ZERO)
        .closeTime(Duration.ZERO);
  }

  /** A batch and a count fail for this reason, and the records stay in the buffer. */
  private static void assertFails(
      StubServer server, String expected, UnaryOperator<Client.Builder> settings) throws Exception {
    List<Failure> failures = new CopyOnWriteArrayList<>();
    Client.Builder builder = settings.apply(client(server.address()).onError(failures::add));
    try (Client client = builder.build()) {
      client.log(Level.INFO, "a");
      // A server may close the connection before the reason of its refusal is read.
      Await.until(
          () ->
              failures.stream()
                  .anyMatch(
                      failure ->
                          failure.kind() == Failure.Kind.ATTEMPT
                              && failure.message().contains(expected)));
      assertEquals(1, client.stats().bufferedRecords());
      assertCountFails(client, expected);
    }
    assertEquals(List.of(), server.requests());
  }

  private static void assertCountFails(Client client, String expected) throws Exception {
    String[] last = {""};
    try {
      Await.until(
          () -> {
            last[0] =
                assertThrows(QueryException.class, () -> client.count(QueryRequest.of("")))
                    .getMessage();
            return last[0].contains(expected);
          });
    } catch (AssertionError e) {
      throw new AssertionError("not " + expected + ", but " + last[0], e);
    }
  }

  private static void assertSends(Client client) {
    client.log(Level.INFO, "a");
    assertTrue(client.flush(LONG));
    assertEquals(0, client.stats().droppedTotal());
    assertEquals(client.stats().logged(), client.stats().acknowledged());
  }

  @Test
  void theFileOfTheAuthorityIsTrusted() throws Exception {
    try (StubServer server = server(own.issue("127.0.0.1"))) {
      for (String scheme : List.of("https://", "")) {
        String address = server.address().replace("https://", scheme);
        try (Client client = client(address).caFile(own.file()).build()) {
          assertSends(client);
          assertEquals(1, client.count(QueryRequest.of("")));
        }
      }
    }
  }

  @Test
  void certificatesThatCannotBeVerifiedAreRefused() throws Exception {
    String unknown = "the certificate of the node is not signed by a trusted CA: ";
    try (StubServer server = server(own.issue("127.0.0.1"))) {
      assertFails(server, unknown, builder -> builder);
      assertFails(server, unknown, builder -> builder.caFile(foreign.file()));
    }
    Map<Authority.Issued, String> wrong =
        Map.of(
            own.issue("a.example"), "the certificate of the node is not for this name: ",
            own.issue("127.0.0.2"), "the certificate of the node is not for this name: ",
            own.issue("127.0.0.1", -2, -1), "the certificate of the node has expired: ",
            own.issue("127.0.0.1", 1, 2), "the certificate of the node is not valid yet: ");
    for (Map.Entry<Authority.Issued, String> entry : wrong.entrySet()) {
      try (StubServer server = server(entry.getKey())) {
        assertFails(server, entry.getValue(), builder -> builder.caFile(own.file()));
      }
    }
  }

  @Test
  void theCertificateOfTheClient() throws Exception {
    Authority.Issued files = own.issue("127.0.0.1");
    try (StubServer server = StubServer.tls(accepting(), files.server(own.file()), true)) {
      // A server of Java 17 answers a missing certificate with the alert bad_certificate.
      assertFails(server, "the node re", builder -> builder.caFile(own.file()));
      Authority.Issued client = own.issue("client.example");
      Client.Builder builder =
          client(server.address())
              .caFile(own.file())
              .certificateFile(client.certificate())
              .keyFile(client.key());
      try (Client certified = builder.build()) {
        assertSends(certified);
      }
    }
  }

  /** A server of openssl, which says why it refuses the certificate of a client. */
  @Test
  void theReasonOfARefusedClientIsReported() throws Exception {
    Authority.Issued files = own.issue("127.0.0.1");
    Process process =
        new ProcessBuilder(
                "openssl",
                "s_server",
                "-accept",
                "127.0.0.1:0",
                "-Verify",
                "1",
                "-verify_return_error",
                "-cert",
                files.certificate().toString(),
                "-key",
                files.key().toString(),
                "-CAfile",
                foreign.file().toString())
            .redirectErrorStream(true)
            .redirectOutput(directory.resolve("log").toFile())
            .start();
    try {
      Path log = directory.resolve("log");
      Await.until(() -> line(log, "ACCEPT ") != null);
      String listening = line(log, "ACCEPT ");
      String address = "https://127.0.0.1" + listening.substring(listening.lastIndexOf(':'));
      try (Client client = client(address).caFile(own.file()).build()) {
        assertCountFails(client, "the node requires a client certificate: ");
      }
      // By its names it is of the CA that the server trusts, so that Java sends it.
      Authority.Issued expired = foreign.issue("client.example", -2, -1);
      Client.Builder builder =
          client(address)
              .caFile(own.file())
              .certificateFile(expired.certificate())
              .keyFile(expired.key());
      try (Client client = builder.build()) {
        assertCountFails(client, "the node refuses the client certificate: ");
      }
    } finally {
      process.destroyForcibly().waitFor();
    }
  }

  private static String line(Path log, String start) {
    try (var lines = Files.lines(log)) {
      return lines.filter(line -> line.startsWith(start)).findFirst().orElse(null);
    } catch (java.io.IOException e) {
      throw new AssertionError(e);
    }
  }

  private static void replace(Path file, byte[] content) throws Exception {
    Path fresh = Files.write(file.resolveSibling("new"), content);
    Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE);
  }

  @Test
  void changedFilesAreUsed() throws Exception {
    Path ca = directory.resolve("ca.pem");
    Files.copy(foreign.file(), ca);
    Authority.Issued old = foreign.issue("client.example");
    Authority.Issued renewed = own.issue("client.example");
    Authority.Issued files = own.issue("127.0.0.1");
    try (StubServer server = StubServer.tls(accepting(), files.server(own.file()), true);
        Client client =
            client(server.address())
                .caFile(ca)
                .certificateFile(old.certificate())
                .keyFile(old.key())
                .onError(failure -> {})
                .build()) {
      client.log(Level.INFO, "a");
      assertCountFails(client, "not signed by a trusted CA");
      replace(ca, new byte[0]);
      assertCountFails(
          client, "(a changed file cannot be used: " + ca + " has no certificate in PEM format)");
      replace(ca, Files.readAllBytes(own.file()));
      assertCountFails(client, "the node re");
      replace(old.certificate(), Files.readAllBytes(renewed.certificate()));
      assertCountFails(client, "is not the key of");
      replace(old.key(), Files.readAllBytes(renewed.key()));
      assertSends(client);
    }
  }

  @Test
  void invalidFilesAreRefused() throws Exception {
    Authority.Issued client = own.issue("client.example");
    Authority.Issued other = own.issue("client.example");
    Map<UnaryOperator<Client.Builder>, String> wrong =
        Map.of(
            b -> b.caFile(directory.resolve("missing")), "missing does not exist",
            b -> b.caFile(directory), "is not a regular file",
            b -> b.caFile(client.key()), "has no certificate in PEM format",
            b -> b.certificateFile(client.certificate()), "need each other",
            b -> b.keyFile(client.key()), "need each other",
            b -> b.certificateFile(client.certificate()).keyFile(client.certificate()),
                "has no private key",
            b -> b.certificateFile(client.certificate()).keyFile(other.key()), "is not the key of",
            b -> b.caFile(own.file()).endpoints("http://127.0.0.1"), "are for https");
    wrong.forEach(
        (settings, expected) -> {
          Client.Builder builder = settings.apply(client("https://127.0.0.1"));
          if (expected.equals("are for https")) {
            builder.endpoints("http://127.0.0.1");
          }
          String message =
              assertThrows(IllegalArgumentException.class, builder::build).getMessage();
          assertTrue(message.contains(expected), message);
        });
  }

  @Test
  void aNodeWithTls() throws Exception {
    assumeTrue(Node.has("certs"), "the program has no TLS");
    try (Node node = Node.tls(directory)) {
      Client.Builder builder =
          client(node.address())
              .caFile(node.certificate("ca.pem"))
              .certificateFile(node.certificate("shop.pem"))
              .keyFile(node.certificate("shop.key"));
      try (Client client = builder.build()) {
        assertSends(client);
        try (QueryResult result = client.query(QueryRequest.of(""))) {
          assertEquals(List.of("a"), result.stream().map(StoredRecord::line).toList());
        }
      }
      try (Client client = client(node.address()).caFile(node.certificate("ca.pem")).build()) {
        assertCountFails(client, "the node requires a client certificate");
      }
      try (Client client = client(node.address()).build()) {
        assertCountFails(client, "the certificate of the node is not signed by a trusted CA");
      }
    }
  }
}
