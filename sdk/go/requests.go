package bucksaw

import (
	"errors"
	"fmt"
	"net/http"
)

// requester sends the requests of a client, with its credentials.
type requester struct {
	client      *http.Client
	credentials *credentials
	own         *ownTransport // Nil if the program has given a transport.
}

// do sends a request. Its error says what is wrong with TLS.
func (r *requester) do(request *http.Request) (*http.Response, error) {
	request.Header.Set("User-Agent", userAgent)
	if request.URL.User == nil { // Else net/http sends that user and the password.
		if authorization := r.credentials.authorization(); authorization != "" {
			request.Header.Set("Authorization", authorization)
		}
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, explainTLS(err)
	}
	return response, nil
}

// withProblems adds to an error what is wrong with changed files: they may be its cause.
func (r *requester) withProblems(err error) error {
	problems := r.credentials.usable()
	if r.own != nil {
		problems = errors.Join(problems, r.own.usable())
	}
	if problems == nil {
		return err
	}
	return fmt.Errorf("%w (a changed file cannot be used: %w)", err, problems)
}
