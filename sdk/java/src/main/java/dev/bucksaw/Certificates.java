package dev.bucksaw;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.Signature;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;

/** The certificates of a client: those of its files, which are read again when they change. */
final class Certificates {
  /** Longest file in bytes. All public CAs have a quarter of it. */
  private static final int FILE_BYTES_MAX = 1 << 20;

  private static final char[] NO_PASSWORD = new char[0];

  private final Path ca;
  private final Path certificate;
  private final Path key;
  private SSLContext context;
  private List<Object> loaded = List.of();
  private String problem;

  /**
   * Reads the files. Each may be null.
   *
   * @throws IllegalArgumentException if the settings contradict each other, or a file cannot be
   *     used
   */
  Certificates(Path ca, Path certificate, Path key) {
    if ((certificate == null) != (key == null)) {
      throw new IllegalArgumentException("certificateFile and keyFile need each other");
    }
    this.ca = ca;
    this.certificate = certificate;
    this.key = key;
    context();
    if (problem != null) {
      throw new IllegalArgumentException("caFile, certificateFile, keyFile: " + problem);
    }
  }

  /** Whether a file is set, so that the endpoints must have TLS. */
  boolean hasFiles() {
    return ca != null || certificate != null;
  }

  /**
   * What new connections use: another object after a change of the files. Empty without files: then
   * the default of the program counts.
   */
  synchronized Optional<SSLContext> context() {
    if (hasFiles()) {
      try {
        List<Object> state = new ArrayList<>();
        for (Path file : Stream.of(ca, certificate, key).filter(Objects::nonNull).toList()) {
          state.add(Files.state(file));
        }
        if (!state.equals(loaded)) {
          context = load();
          loaded = state;
        }
        problem = null;
      } catch (IOException e) {
        problem = e.getMessage();
      }
    }
    return Optional.ofNullable(context);
  }

  /** Why the changed files cannot be used. */
  synchronized Optional<String> problem() {
    return Optional.ofNullable(problem);
  }

  private SSLContext load() throws IOException {
    TrustManager[] trusted = ca == null ? null : trusted(certificates(ca));
    KeyManager[] own = null;
    if (certificate != null) {
      List<Certificate> chain = certificates(certificate);
      own = own(chain.toArray(Certificate[]::new), key(key));
    }
    try {
      SSLContext loaded = SSLContext.getInstance("TLS");
      loaded.init(own, trusted, null);
      return loaded;
    } catch (GeneralSecurityException e) {
      throw new IOException("TLS: " + e.getMessage(), e);
    }
  }

  private TrustManager[] trusted(List<Certificate> authorities) throws IOException {
    try {
      KeyStore store = KeyStore.getInstance("PKCS12");
      store.load(null, null);
      for (int i = 0; i < authorities.size(); i++) {
        store.setCertificateEntry("ca-" + i, authorities.get(i));
      }
      TrustManagerFactory factory =
          TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
      factory.init(store);
      return factory.getTrustManagers();
    } catch (GeneralSecurityException e) {
      throw new IOException(ca + ": " + e.getMessage(), e);
    }
  }

  private KeyManager[] own(Certificate[] chain, PrivateKey secret) throws IOException {
    try {
      if (!belongTogether(chain[0].getPublicKey(), secret)) {
        throw new IOException(key + " is not the key of " + certificate);
      }
      KeyStore store = KeyStore.getInstance("PKCS12");
      store.load(null, null);
      store.setKeyEntry("client", secret, NO_PASSWORD, chain);
      KeyManagerFactory factory =
          KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
      factory.init(store, NO_PASSWORD);
      return factory.getKeyManagers();
    } catch (GeneralSecurityException e) {
      throw new IOException(certificate + " and " + key + ": " + e.getMessage(), e);
    }
  }

  /** A key store does not check this, and every handshake would fail without a reason. */
  private static boolean belongTogether(PublicKey open, PrivateKey secret)
      throws GeneralSecurityException {
    String algorithm =
        switch (open.getAlgorithm()) {
          case "RSA" -> "SHA256withRSA";
          case "EC" -> "SHA256withECDSA";
          default -> open.getAlgorithm();
        };
    if (!open.getAlgorithm().equals(secret.getAlgorithm())) {
      return false;
    }
    byte[] message = {1};
    Signature signature = Signature.getInstance(algorithm);
    signature.initSign(secret);
    signature.update(message);
    byte[] signed = signature.sign();
    signature.initVerify(open);
    signature.update(message);
    return signature.verify(signed);
  }

  private static List<Certificate> certificates(Path file) throws IOException {
    List<Certificate> certificates = new ArrayList<>();
    for (byte[] block : blocks(file, "CERTIFICATE")) {
      try {
        certificates.add(
            CertificateFactory.getInstance("X.509")
                .generateCertificate(new ByteArrayInputStream(block)));
      } catch (GeneralSecurityException e) {
        throw new IOException(file + ": " + e.getMessage(), e);
      }
    }
    if (certificates.isEmpty()) {
      throw new IOException(file + " has no certificate in PEM format");
    }
    return certificates;
  }

  private static PrivateKey key(Path file) throws IOException {
    List<byte[]> blocks = blocks(file, "PRIVATE KEY");
    if (blocks.isEmpty()) {
      throw new IOException(
          file
              + " has no private key that Java can read: `openssl pkcs8 -topk8 -nocrypt -in KEY`"
              + " converts others");
    }
    PKCS8EncodedKeySpec encoded = new PKCS8EncodedKeySpec(blocks.get(0));
    for (String algorithm : List.of("EC", "RSA", "EdDSA")) {
      try {
        return KeyFactory.getInstance(algorithm).generatePrivate(encoded);
      } catch (InvalidKeySpecException e) {
        // It is one of another algorithm.
        continue;
      } catch (GeneralSecurityException e) {
        throw new IOException(file + ": " + e.getMessage(), e);
      }
    }
    throw new IOException(file + " has no key of EC, RSA or EdDSA");
  }

  private static List<byte[]> blocks(Path file, String kind) throws IOException {
    String text = new String(Files.read(file, FILE_BYTES_MAX), StandardCharsets.ISO_8859_1);
    Matcher matcher =
        Pattern.compile("-----BEGIN " + kind + "-----([^-]*)-----END " + kind + "-----")
            .matcher(text);
    List<byte[]> blocks = new ArrayList<>();
    while (matcher.find()) {
      try {
        blocks.add(Base64.getMimeDecoder().decode(matcher.group(1)));
      } catch (IllegalArgumentException e) {
        throw new IOException(file + ": a block is not PEM", e);
      }
    }
    return blocks;
  }
}
