package dev.bucksaw;

import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.regex.Pattern;

/** The token that requests are sent with, if there is one. No form of text shows it. */
final class Credentials {
  /** Longest token in bytes that a node takes. */
  private static final int TOKEN_BYTES_MAX = 4096;

  static final String TOKEN_VARIABLE = "BUCKSAW_TOKEN";

  private static final Pattern BLANKS = Pattern.compile("^[ \t\r\n]+|[ \t\r\n]+\\z");
  private static final Pattern VISIBLE = Pattern.compile("[!-~]{1," + TOKEN_BYTES_MAX + "}");
  private static final Pattern LOOPBACK =
      Pattern.compile("localhost|127(\\.\\d{1,3}){3}|\\[(0*:)*:?0*1\\]");

  private final Path file;
  private String token;
  private String problem;

  /**
   * Takes the token of the setting, or of the file, or of the environment.
   *
   * @param token the setting; null for none
   * @param file the file; null for none
   * @param environment the value of the environment variable; null for none
   * @throws IllegalArgumentException if there is no usable token where one is expected
   */
  Credentials(String token, Path file, String environment) {
    this.file = file;
    if (token != null && file != null) {
      throw new IllegalArgumentException("token and tokenFile are both set");
    }
    if (file != null) {
      authorization();
      if (problem != null) {
        throw new IllegalArgumentException("tokenFile: " + problem);
      }
    } else if (token != null) {
      this.token = checked("token", token);
    } else if (environment != null && !stripped(environment).isEmpty()) {
      this.token = checked("the environment variable " + TOKEN_VARIABLE, environment);
    }
  }

  private static String checked(String name, String text) {
    return parse(text)
        .orElseThrow(
            () ->
                // Without the text.
                new IllegalArgumentException(
                    name + ": expected 1 to " + TOKEN_BYTES_MAX + " visible characters of ASCII"));
  }

  /** The token in a text, if it has one that can be used. */
  static Optional<String> parse(String text) {
    String token = stripped(text);
    return VISIBLE.matcher(token).matches() ? Optional.of(token) : Optional.empty();
  }

  private static String stripped(String text) {
    return BLANKS.matcher(text).replaceAll("");
  }

  /** The header of a request. Reads the file again. */
  synchronized Optional<String> authorization() {
    if (file != null) {
      try {
        byte[] content = Files.read(file, TOKEN_BYTES_MAX + 4);
        // One character per byte, because only ASCII can be a token.
        token =
            parse(new String(content, StandardCharsets.ISO_8859_1))
                .orElseThrow(
                    () -> new IOException(file + " has no token of visible characters of ASCII"));
        problem = null;
      } catch (IOException e) {
        problem = e.getMessage();
      }
    }
    return Optional.ofNullable(token).map(text -> "Bearer " + text);
  }

  /** Why the file cannot be used at the moment. */
  synchronized Optional<String> problem() {
    return Optional.ofNullable(problem);
  }

  /**
   * Checks that the token is not sent to another machine without encryption.
   *
   * @throws IllegalArgumentException if it would be
   */
  synchronized void checkSecrecy(List<URI> endpoints) {
    for (URI endpoint : endpoints) {
      String host = endpoint.getHost().toLowerCase(Locale.ROOT);
      if (token != null
          && !endpoint.getScheme().equalsIgnoreCase("https")
          && !LOOPBACK.matcher(host).matches()) {
        throw new IllegalArgumentException(
            "the token would be sent to "
                + endpoint
                + " without encryption: use https, or set insecureToken");
      }
    }
  }
}
