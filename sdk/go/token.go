package bucksaw

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
)

// tokenBytesMax is the length of the longest token that a node takes.
const tokenBytesMax = 4096

// Token is a token of a client. No form of text shows it, so it gets into no log by accident. The zero value is none.
type Token struct {
	// A pointer, because fmt prints the fields of structs in fields that are not exported, without asking them.
	text *string
}

// NewToken returns a token. [New] checks it.
func NewToken(text string) Token { return Token{&text} }

const redacted = "[redacted]"

// Format writes "[redacted]" for each verb.
func (Token) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, redacted) }

// MarshalText returns "[redacted]".
func (Token) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// credentials are what requests identify themselves with: a token, the one of a file, or none.
type credentials struct {
	file string // Read before each request, unless it is empty.

	mutex   sync.Mutex
	token   *string // The current one; nil if there is none. A pointer, so that fmt does not show it.
	problem error   // Why the file cannot be used at the moment.
}

// newCredentials returns the credentials of the settings, or else those of the environment.
func newCredentials(config Config) (*credentials, error) {
	switch {
	case config.Token.text != nil && config.TokenFile != "":
		return nil, errors.New("bucksaw: Token and TokenFile are both set")
	case config.TokenFile != "":
		token, err := readToken(config.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("bucksaw: %w", err)
		}
		return &credentials{file: config.TokenFile, token: &token}, nil
	case config.Token.text != nil:
		token, err := parseToken(*config.Token.text)
		if err != nil {
			return nil, fmt.Errorf("bucksaw: Token: %w", err)
		}
		return &credentials{token: &token}, nil
	}
	text := os.Getenv(tokenVariable)
	if strings.Trim(text, tokenBlanks) == "" {
		return &credentials{}, nil
	}
	token, err := parseToken(text)
	if err != nil {
		return nil, fmt.Errorf("bucksaw: the environment variable %s: %w", tokenVariable, err)
	}
	return &credentials{token: &token}, nil
}

// tokenBlanks are removed around a token.
const tokenBlanks = " \t\r\n"

// parseToken returns the token in a text. Its error does not have the text.
func parseToken(text string) (string, error) {
	token := strings.Trim(text, tokenBlanks)
	if token == "" {
		return "", errors.New("it has no token")
	}
	if len(token) > tokenBytesMax {
		return "", fmt.Errorf("the token is longer than %d bytes", tokenBytesMax)
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return "", errors.New("the token has other characters than visible ones of ASCII")
		}
	}
	return token, nil
}

func readToken(name string) (string, error) {
	text, err := readRegular(name, tokenBytesMax+int64(len(tokenBlanks)))
	if err != nil {
		return "", fmt.Errorf("the token file: %w", err)
	}
	token, err := parseToken(string(text))
	if err != nil {
		return "", fmt.Errorf("the token file %s: %w", name, err)
	}
	return token, nil
}

// readRegular reads a file whole, and fails if it is longer. Another kind of file could block for ever.
func readRegular(name string, bytesMax int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, bytesMax+1))
	if err == nil && int64(len(content)) > bytesMax {
		err = fmt.Errorf("%s is longer than %d bytes", name, bytesMax)
	}
	return content, err
}

// authorization returns the header of a request; empty without a token.
func (c *credentials) authorization() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.file != "" {
		var token string
		if token, c.problem = readToken(c.file); c.problem == nil {
			c.token = &token
		}
	}
	if c.token == nil {
		return ""
	}
	return "Bearer " + *c.token
}

// usable returns why the file cannot be used at the moment.
func (c *credentials) usable() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.problem
}

// checkSecrecy fails if a token or a password would be sent to another machine without encryption.
func (c *credentials) checkSecrecy(endpoints []*url.URL) error {
	for _, endpoint := range endpoints {
		if endpoint.Scheme == "https" || isLoopback(endpoint.Hostname()) {
			continue
		}
		if endpoint.User != nil {
			return fmt.Errorf("bucksaw: the password would be sent to %q without encryption: use https, or set InsecureToken",
				endpoint.Redacted())
		}
		if c.token != nil {
			return fmt.Errorf("bucksaw: the token would be sent to %q without encryption: use https, or set InsecureToken",
				endpoint)
		}
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
