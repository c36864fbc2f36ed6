package bucksaw

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// Version is the version of this package.
const Version = "0.1.0"

// Durability says when a node acknowledges a batch.
type Durability string

// The durabilities of the ingest call.
const (
	Fast    Durability = "fast"    // the records are written
	Durable Durability = "durable" // the records are synced to disk
	Bulk    Durability = "bulk"    // the records are in the store
)

// WhenFull says what happens to a record that does not fit into the buffer.
type WhenFull int

// What happens to a record that does not fit.
const (
	Drop  WhenFull = iota // The record is dropped and counted.
	Block                 // The caller waits for at most Config.BlockTime. Then the record is dropped and counted.
)

// Config has the settings of a [Client]. The zero value of each field means its default.
type Config struct {
	// Endpoints are the nodes, in the order in which they are tried: "http://10.0.0.1:7650". The default is the list in the
	// environment variable BUCKSAW_ADDR, separated by commas, or else http://127.0.0.1:7650.
	Endpoints []string
	// Labels are those of all records. A label with an empty value is none.
	Labels map[string]string
	// Durability is Durable by default.
	Durability Durability
	// BatchBytes is the size of encoded lines at which a batch is sent. The default is 512 KiB, the maximum 8 MiB.
	// A longer line is a batch of its own.
	BatchBytes int
	// BatchRecords is the number of records at which a batch is sent. The default is 10,000, the maximum 32,768.
	BatchRecords int
	// BatchAge is the age of the first record at which a batch is sent. The default is 1 s.
	BatchAge time.Duration
	// BufferBytes is the maximum size of the encoded lines of all records that are not acknowledged. The default is 32 MiB.
	BufferBytes int
	// WhenFull is Drop by default.
	WhenFull WhenFull
	// BlockTime is 100 ms by default.
	BlockTime time.Duration
	// Token is sent with each request, as "Authorization: Bearer". The default is that of the environment variable BUCKSAW_TOKEN.
	Token Token
	// TokenFile is a file with the token. It is read before each request, so that a token can be replaced.
	TokenFile string
	// CAFile has the certificates of the CAs that are trusted, in PEM format; by default they are those of the system.
	// This and the two files below are read again when they change, and make an endpoint without a scheme one with https.
	CAFile string
	// CertificateFile has the certificate of the client in PEM format, followed by those of intermediate CAs.
	CertificateFile string
	// KeyFile has the private key of CertificateFile in PEM format, without a passphrase.
	KeyFile string
	// InsecureToken allows a token, or a password of an endpoint, over plain http to other machines. New fails without it.
	InsecureToken bool
	// RequestTime is the time after which an attempt to send a batch counts as failed. The default is 30 s.
	RequestTime time.Duration
	// CloseTime is the maximum time that Close waits for records to be acknowledged. The default is 5 s.
	CloseTime time.Duration
	// OnError is called for failures, in one goroutine of the client, never from a function that logs. Failures of one kind are
	// combined: the first is reported at once, those that follow at most once a second. If OnError is nil, they are written
	// to standard error, at most once a minute for each kind.
	OnError func(*Error)
	// Transport sends the requests; by default a transport of the client's own, with the proxy of the environment.
	// It must close the bodies of requests, as the documentation of http.RoundTripper demands.
	Transport http.RoundTripper
}

const (
	userAgent        = "bucksaw-go/" + Version
	addressVariable  = "BUCKSAW_ADDR"
	tokenVariable    = "BUCKSAW_TOKEN"
	defaultEndpoint  = "127.0.0.1:7650"
	defaultPort      = "7650"
	batchBytesMax    = 8 << 20 // A node accepts at most 16 MiB of JSON with mapped members in a body.
	batchRecordsMax  = 32768   // A node accepts a body with more objects in parts.
	labelsMax        = 64
	labelNameMax     = 128
	labelValueMax    = 1024
	keyAgeMax        = 6 * 24 * time.Hour
	gzipBytesMin     = 1 << 10
	answerBytesMax   = 1 << 20
	errorBytesMax    = 64 << 10
	reasonBytesMax   = 1000
	idleTimeMax      = 8 * time.Second // A node closes a connection that is idle for 10 s.
	connectTimeMax   = 10 * time.Second
	headerBytesMax   = 64 << 10
	retryAfterMax    = 60 * time.Second
	reportInterval   = time.Second
	stderrInterval   = time.Minute
	lastReportsGrace = 100 * time.Millisecond
)

// resolved returns the settings with defaults in place of zero values.
func (c Config) resolved() (Config, error) {
	if c.Durability == "" {
		c.Durability = Durable
	}
	if !slices.Contains([]Durability{Fast, Durable, Bulk}, c.Durability) {
		return c, fmt.Errorf("bucksaw: durability %q is not fast, durable or bulk", c.Durability)
	}
	if c.WhenFull != Drop && c.WhenFull != Block {
		return c, fmt.Errorf("bucksaw: WhenFull is %d, not Drop or Block", c.WhenFull)
	}
	return c, errors.Join(
		number("BatchBytes", &c.BatchBytes, 512<<10, batchBytesMax),
		number("BatchRecords", &c.BatchRecords, 10_000, batchRecordsMax),
		number("BatchAge", &c.BatchAge, time.Second, 24*time.Hour),
		number("BufferBytes", &c.BufferBytes, 32<<20, 1<<40),
		number("BlockTime", &c.BlockTime, 100*time.Millisecond, 24*time.Hour),
		number("RequestTime", &c.RequestTime, 30*time.Second, 24*time.Hour),
		number("CloseTime", &c.CloseTime, 5*time.Second, 24*time.Hour),
	)
}

// number replaces zero by the default, and checks the range 1..=largest.
func number[N ~int | ~int64](name string, value *N, otherwise, largest N) error {
	if *value == 0 {
		*value = otherwise
	}
	if *value < 0 || *value > largest {
		return fmt.Errorf("bucksaw: %s is %v, not from 0 to %v", name, *value, largest)
	}
	return nil
}

// endpoints returns the addresses of the nodes without a slash at the end. All of them have https if the client needs TLS.
func (c Config) endpoints(needsTLS bool) ([]*url.URL, error) {
	texts := c.Endpoints
	if len(texts) == 0 {
		for text := range strings.SplitSeq(os.Getenv(addressVariable), ",") {
			if text = strings.TrimSpace(text); text != "" {
				texts = append(texts, text)
			}
		}
	}
	if len(texts) == 0 {
		texts = []string{defaultEndpoint}
	}
	var endpoints []*url.URL
	for _, text := range texts {
		endpoint, err := parseEndpoint(text, needsTLS)
		if err != nil {
			return nil, err
		}
		endpoints = append(endpoints, endpoint)
	}
	return endpoints, nil
}

// parseEndpoint reads http://host:port/path. Like the command line it also takes host:port, host and :port.
func parseEndpoint(text string, needsTLS bool) (*url.URL, error) {
	hasScheme := strings.Contains(text, "://")
	if !hasScheme {
		if strings.HasPrefix(text, ":") {
			text = "127.0.0.1" + text
		}
		scheme := "http://"
		if needsTLS {
			scheme = "https://"
		}
		text = scheme + text
	}
	endpoint, err := url.Parse(text)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err // Without the address, which may contain a password.
		}
		return nil, fmt.Errorf("bucksaw: an endpoint is not an address: %w", err)
	}
	if endpoint.Scheme != "http" && endpoint.Scheme != "https" || endpoint.Hostname() == "" {
		return nil, fmt.Errorf("bucksaw: the endpoint %q is not http://host:port or https://host:port", endpoint.Redacted())
	}
	if needsTLS && endpoint.Scheme != "https" {
		return nil, fmt.Errorf("bucksaw: CAFile, CertificateFile and KeyFile are for https, and the endpoint is %q", endpoint.Redacted())
	}
	if endpoint.RawQuery != "" || endpoint.Fragment != "" {
		return nil, fmt.Errorf("bucksaw: the endpoint %q has parameters", endpoint.Redacted())
	}
	if !hasScheme && endpoint.Port() == "" {
		endpoint.Host = strings.TrimSuffix(endpoint.Host, ":") + ":" + defaultPort
	}
	endpoint.Path = strings.TrimRight(endpoint.Path, "/")
	endpoint.RawPath = strings.TrimRight(endpoint.RawPath, "/")
	return endpoint, nil
}

// ingestQuery returns the parameters of the ingest call.
func ingestQuery(durability Durability, labels map[string]string) (string, error) {
	query := "durability=" + string(durability) + "&time_field=time&message_field=message"
	names := make([]string, 0, len(labels))
	for name, value := range labels {
		if !isLabelName(name) {
			return "", fmt.Errorf("bucksaw: the label name %q is not a letter or _ followed by letters, digits, _, . and -", name)
		}
		if len(name) > labelNameMax || len(value) > labelValueMax {
			return "", fmt.Errorf("bucksaw: the label %.40q is too long: a name may have %d bytes, a value %d",
				name, labelNameMax, labelValueMax)
		}
		if value != "" {
			names = append(names, name)
		}
	}
	if len(names) > labelsMax {
		return "", fmt.Errorf("bucksaw: more than %d labels", labelsMax)
	}
	slices.Sort(names)
	for _, name := range names {
		query += "&label=" + escape(name+"="+labels[name])
	}
	return query, nil
}

func isLabelName(name string) bool {
	for i := range len(name) {
		b := name[i]
		isLetter := b == '_' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
		isLater := b == '.' || b == '-' || '0' <= b && b <= '9'
		if !isLetter && (i == 0 || !isLater) {
			return false
		}
	}
	return name != ""
}

// escape encodes all bytes but letters, digits, "-", "_", "." and "~" with a percent sign. url.QueryEscape writes a space as
// a plus sign, which not every proxy decodes.
func escape(text string) string {
	const hex = "0123456789ABCDEF"
	var out strings.Builder
	for i := range len(text) {
		b := text[i]
		if 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || strings.IndexByte("-_.~", b) >= 0 {
			out.WriteByte(b)
		} else {
			out.Write([]byte{'%', hex[b>>4], hex[b&15]})
		}
	}
	return out.String()
}
