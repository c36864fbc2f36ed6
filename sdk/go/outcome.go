package bucksaw

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// result is what follows from an attempt.
type result int

const (
	retry result = iota
	acknowledged
	refused
	denied // As retry: the node may accept another token, or this one later.
)

// outcome is the result of one attempt to send a batch.
type outcome struct {
	result     result
	rejected   int64
	retryAfter time.Duration
	err        error // Why the batch was not acknowledged, or the first reason of a rejected record.
}

// failedAttempt is an attempt without a complete answer.
func failedAttempt(err error) outcome { return outcome{result: retry, err: err} }

// outcomeOf judges an answer to a batch.
func outcomeOf(status int, header http.Header, body []byte) outcome {
	switch status {
	case http.StatusOK:
		return outcomeOfSuccess(body)
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return outcome{result: retry, retryAfter: retryAfter(header), err: statusError(status, body)}
	case http.StatusUnauthorized, http.StatusForbidden:
		return outcome{result: denied, retryAfter: retryAfter(header), err: statusError(status, body)}
	default:
		return outcome{result: refused, err: statusError(status, body)}
	}
}

func outcomeOfSuccess(body []byte) outcome {
	var answer struct {
		Accepted *int64 `json:"accepted"`
		Rejected int64  `json:"rejected"`
		Errors   []any  `json:"errors"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return failedAttempt(fmt.Errorf("%w: %w", ErrInvalid, err))
	}
	if answer.Accepted == nil || answer.Rejected < 0 {
		return failedAttempt(fmt.Errorf("%w: it does not state the accepted records", ErrInvalid))
	}
	judged := outcome{result: acknowledged, rejected: answer.Rejected, err: errors.New("no reason is stated")}
	if len(answer.Errors) > 0 {
		reason, isObject := answer.Errors[0].(map[string]any)
		if isObject && reason["error"] != nil {
			answer.Errors[0] = reason["error"]
		}
		judged.err = errors.New(shortened(fmt.Sprint(answer.Errors[0])))
	}
	return judged
}

// retryAfter returns the seconds of the header, at most a minute.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.ParseUint(strings.TrimSpace(header.Get("Retry-After")), 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return min(time.Duration(min(seconds, 3600))*time.Second, retryAfterMax)
}

// statusError returns the error of an answer: the node's own, if it states one.
func statusError(status int, body []byte) error {
	var answer struct {
		Error string `json:"error"`
	}
	_ = json.Unmarshal(body, &answer) // A proxy in front of the node sends other bodies.
	return &StatusError{Status: status, Message: shortened(answer.Error)}
}

// pause returns the time before attempt n, where 1 is the first retry, for a random number from 0 to 1.
func pause(n int, random float64, after time.Duration) time.Duration {
	longest := 10 * time.Second
	if n < 8 { // 100 ms · 2^7 is more than the limit.
		longest = min(longest, 100*time.Millisecond<<(n-1))
	}
	return max(longest/2+time.Duration(random*float64(longest/2)), after)
}

// shortened bounds a text of an answer that is reported.
func shortened(text string) string {
	if len(text) > reasonBytesMax {
		return strings.ToValidUTF8(text[:reasonBytesMax], "") + "…"
	}
	return text
}
