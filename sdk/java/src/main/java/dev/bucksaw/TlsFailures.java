package dev.bucksaw;

import java.security.cert.CertPathBuilderException;
import java.security.cert.CertPathValidatorException;
import java.security.cert.CertPathValidatorException.BasicReason;
import java.security.cert.CertificateException;
import java.security.cert.CertificateExpiredException;
import java.security.cert.CertificateNotYetValidException;
import java.security.cert.PKIXReason;
import java.util.Optional;
import java.util.regex.Pattern;
import javax.net.ssl.SSLException;

/** Says what is wrong with TLS, in the sentences of all SDKs. */
final class TlsFailures {
  private static final int CAUSES_MAX = 16;

  private static final Pattern WRONG_NAME =
      Pattern.compile("No (subject alternative|name matching|Name Constraints).*");

  /** Alerts that a node sends for the certificate of a client. */
  private static final Pattern REFUSED =
      Pattern.compile(
          "(?i).*fatal alert: (bad_certificate|unsupported_certificate|certificate_revoked"
              + "|certificate_expired|certificate_unknown|unknown_ca|decrypt_error)");

  private TlsFailures() {}

  /** The failure of a request in a sentence. */
  static String describe(Throwable failure) {
    String message = failure.getMessage();
    String name = failure.getClass().getSimpleName();
    String text = message == null ? name : name + ": " + message;
    return sentence(failure).map(sentence -> sentence + ": " + text).orElse(text);
  }

  private static Optional<String> sentence(Throwable failure) {
    // The innermost cause is the most exact one.
    Optional<String> found = Optional.empty();
    Throwable cause = failure;
    for (int i = 0; cause != null && i < CAUSES_MAX; i++) {
      Optional<String> exact = sentenceOf(cause);
      found = exact.isPresent() ? exact : found;
      cause = cause.getCause();
    }
    return found;
  }

  private static Optional<String> sentenceOf(Throwable cause) {
    String message = cause.getMessage() == null ? "" : cause.getMessage();
    if (cause instanceof CertificateExpiredException) {
      return Optional.of("the certificate of the node has expired");
    }
    if (cause instanceof CertificateNotYetValidException) {
      return Optional.of("the certificate of the node is not valid yet");
    }
    if (cause instanceof CertPathBuilderException
        || cause instanceof CertPathValidatorException invalid
            && (invalid.getReason() == PKIXReason.NO_TRUST_ANCHOR
                || invalid.getReason() == BasicReason.INVALID_SIGNATURE)) {
      return Optional.of("the certificate of the node is not signed by a trusted CA");
    }
    if (cause instanceof CertificateException && WRONG_NAME.matcher(message).matches()) {
      return Optional.of("the certificate of the node is not for this name");
    }
    if (cause instanceof SSLException && message.endsWith("fatal alert: certificate_required")) {
      return Optional.of("the node requires a client certificate");
    }
    if (cause instanceof SSLException && REFUSED.matcher(message).matches()) {
      return Optional.of("the node refuses the client certificate");
    }
    return Optional.empty();
  }
}
