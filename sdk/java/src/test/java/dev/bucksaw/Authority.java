package dev.bucksaw;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import javax.net.ssl.SSLContext;

/** A CA in a directory of its own, made by the command openssl. */
final class Authority {
  private static final String CONFIGURATION =
      """
      [ca]
      default_ca = own
      [own]
      database = index.txt
      new_certs_dir = .
      certificate = ca.pem
      private_key = ca.key
      serial = serial
      default_md = sha256
      policy = any
      copy_extensions = copy
      unique_subject = no
      [any]
      commonName = supplied
      [req]
      distinguished_name = names
      [names]
      [authority]
      basicConstraints = critical,CA:true
      """;

  private static final DateTimeFormatter TIME =
      DateTimeFormatter.ofPattern("yyMMddHHmmss'Z'").withZone(ZoneOffset.UTC);

  /** The files of a certificate. */
  record Issued(Path certificate, Path key) {
    /** TLS of a server with this certificate, which trusts clients of this CA. */
    SSLContext server(Path clientCa) {
      return new Certificates(clientCa, certificate, key).context().orElseThrow();
    }
  }

  private final Path directory;
  private int issued;

  Authority(Path directory) throws Exception {
    this.directory = Files.createDirectory(directory);
    Files.writeString(directory.resolve("openssl.cnf"), CONFIGURATION);
    Files.writeString(directory.resolve("index.txt"), "");
    Files.writeString(directory.resolve("serial"), "01");
    openssl(
        List.of("req", "-x509"),
        newKey("test CA"),
        List.of("-keyout", "ca.key", "-out", "ca.pem", "-extensions", "authority", "-days", "2"));
  }

  /** The certificate of the CA. */
  Path file() {
    return directory.resolve("ca.pem");
  }

  Issued issue(String name) throws Exception {
    return issue(name, -1, 24);
  }

  /** Makes a certificate for a host or client, valid from and to these hours from now. */
  Issued issue(String name, int fromHours, int toHours) throws Exception {
    Path place = Files.createDirectory(directory.resolve(Integer.toString(++issued)));
    Issued files = new Issued(place.resolve("cert.pem"), place.resolve("key.pem"));
    String request = place.resolve("request.pem").toString();
    String kind = name.matches("[0-9.]+") ? "IP:" : "DNS:";
    openssl(
        List.of("req"),
        newKey(name),
        List.of("-addext", "subjectAltName=" + kind + name),
        List.of("-keyout", files.key().toString(), "-out", request));
    Instant now = Instant.now();
    openssl(
        List.of("ca", "-batch", "-notext", "-config", "openssl.cnf"),
        List.of("-startdate", TIME.format(now.plus(Duration.ofHours(fromHours)))),
        List.of("-enddate", TIME.format(now.plus(Duration.ofHours(toHours)))),
        List.of("-in", request, "-out", files.certificate().toString()));
    return files;
  }

  private static List<String> newKey(String name) {
    List<String> arguments = new ArrayList<>(List.of("-config", "openssl.cnf", "-nodes"));
    Collections.addAll(arguments, "-subj", "/CN=" + name);
    Collections.addAll(arguments, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256");
    return arguments;
  }

  @SafeVarargs
  private void openssl(List<String>... arguments) throws IOException, InterruptedException {
    List<String> command = new ArrayList<>(List.of("openssl"));
    for (List<String> part : arguments) {
      command.addAll(part);
    }
    Process process =
        new ProcessBuilder(command).directory(directory.toFile()).redirectErrorStream(true).start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor(), output);
  }
}
