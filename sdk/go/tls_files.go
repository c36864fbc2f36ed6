package bucksaw

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"reflect"
	"sync"
	"time"
)

// tlsFileBytesMax is the length of the longest file of certificates. All public CAs have a quarter of it.
const tlsFileBytesMax = 1 << 20

// tlsFiles are the names of the files of a client. Each may be empty.
type tlsFiles struct {
	ca, certificate, key string
}

// newTLSFiles returns the files of the settings.
func newTLSFiles(config Config) (tlsFiles, error) {
	files := tlsFiles{ca: config.CAFile, certificate: config.CertificateFile, key: config.KeyFile}
	switch {
	case (files.certificate == "") != (files.key == ""):
		return files, errors.New("bucksaw: CertificateFile and KeyFile need each other")
	case files.isAny() && config.Transport != nil:
		return files, errors.New("bucksaw: CAFile, CertificateFile and KeyFile have no effect on a Transport of the program")
	}
	return files, nil
}

func (f tlsFiles) isAny() bool { return f != tlsFiles{} }

func (f tlsFiles) names() (names []string) {
	for _, name := range []string{f.ca, f.certificate, f.key} {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// load reads the files.
func (f tlsFiles) load() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		content, err := readRegular(f.ca, tlsFileBytesMax)
		if err != nil {
			return nil, fmt.Errorf("CAFile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content) {
			return nil, fmt.Errorf("CAFile: %s has no certificate in PEM format", f.ca)
		}
	}
	if f.certificate != "" {
		certificate, err := readRegular(f.certificate, tlsFileBytesMax)
		if err != nil {
			return nil, fmt.Errorf("CertificateFile: %w", err)
		}
		key, err := readRegular(f.key, tlsFileBytesMax)
		if err != nil {
			return nil, fmt.Errorf("KeyFile: %w", err)
		}
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", f.certificate, f.key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// ownTransport sends the requests of a client, over connections with the certificates of its files. When these change, new
// requests get new connections.
type ownTransport struct {
	files tlsFiles

	mutex   sync.Mutex
	current *http.Transport
	loaded  []os.FileInfo // Of the files, before they were loaded.
	problem error         // Why the changed files cannot be used.
}

func newOwnTransport(files tlsFiles) (*ownTransport, error) {
	t := &ownTransport{files: files}
	if t.refresh(); t.problem != nil {
		return nil, fmt.Errorf("bucksaw: %w", t.problem)
	}
	return t, nil
}

// RoundTrip sends a request.
func (t *ownTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	return t.refresh().RoundTrip(request)
}

// refresh reads the files again if they have changed. It tries so at each request until they can be used.
func (t *ownTransport) refresh() *http.Transport {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.current != nil && len(t.files.names()) == 0 {
		return t.current
	}
	var found []os.FileInfo
	for _, name := range t.files.names() {
		info, err := os.Stat(name)
		if err != nil {
			t.problem = err
			return t.current
		}
		found = append(found, info)
	}
	if t.current != nil && areSame(found, t.loaded) {
		t.problem = nil
		return t.current
	}
	var config *tls.Config
	if config, t.problem = t.files.load(); t.problem != nil {
		return t.current
	}
	if t.current != nil {
		t.current.CloseIdleConnections()
	}
	t.current, t.loaded = newTransport(config), found
	return t.current
}

func areSame(a, b []os.FileInfo) bool {
	for i := range a {
		if !os.SameFile(a[i], b[i]) || a[i].Size() != b[i].Size() || !a[i].ModTime().Equal(b[i].ModTime()) {
			return false
		}
	}
	return true
}

// usable returns why the changed files cannot be used.
func (t *ownTransport) usable() error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.problem
}

func (t *ownTransport) closeIdle() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.current.CloseIdleConnections()
}

func newTransport(config *tls.Config) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: connectTimeMax, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    connectTimeMax,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        idleTimeMax,
		MaxResponseHeaderBytes: headerBytesMax,
	}
}

// explainTLS puts a sentence of the contract of all SDKs before an error of TLS.
func explainTLS(err error) error {
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var authority x509.UnknownAuthorityError
	sentence := ""
	switch {
	case errors.As(err, &name):
		sentence = "the certificate of the node is not for this name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		sentence = "the certificate of the node has expired"
		if time.Now().Before(invalid.Cert.NotBefore) {
			sentence = "the certificate of the node is not valid yet"
		}
	case errors.As(err, &authority):
		sentence = "the certificate of the node is not signed by a trusted CA"
	default:
		switch alert := alertOf(err); {
		case alert == alertCertificateRequired:
			sentence = "the node requires a client certificate"
		case alertBadCertificate <= alert && alert <= alertCertificateUnknown, alert == alertUnknownCA, alert == alertDecryptError:
			sentence = "the node refuses the client certificate"
		}
	}
	if sentence == "" {
		return err
	}
	return fmt.Errorf("%s: %w", sentence, err)
}

// Alerts of RFC 8446, section 6.2, that a server sends for the certificate of a client.
const (
	alertBadCertificate      = 42
	alertCertificateUnknown  = 46
	alertUnknownCA           = 48
	alertDecryptError        = 51
	alertCertificateRequired = 116
)

// alertOf returns the alert that the server sent; 0 if it sent none. Its type is an unexported one of crypto/tls.
func alertOf(err error) uint64 {
	var remote *net.OpError
	if errors.As(err, &remote) && remote.Op == "remote error" {
		if alert := reflect.ValueOf(remote.Err); alert.Kind() == reflect.Uint8 {
			return alert.Uint()
		}
	}
	return 0
}
