package bucksaw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// StoredRecord is a record of an answer.
type StoredRecord struct {
	ID     string
	Time   time.Time
	Labels map[string]string
	// Attributes have the bytes that were logged, which need not be UTF-8.
	Attributes map[string]string
	// Line has the bytes of the record, which need not be UTF-8.
	Line []byte
	// Cut says that the record was cut for its length, and continues in the next.
	Cut bool
	// Unterminated says that the record is the last of a source that ended without a line end.
	Unterminated bool
}

// Text returns the line, with U+FFFD in place of bytes that are not UTF-8.
func (r StoredRecord) Text() string { return strings.ToValidUTF8(string(r.Line), "\ufffd") }

// When is a time of a query: RFC 3339, or a text that the command line takes, such as "15m" or "yesterday".
type When string

// At returns a time as a When.
func At(at time.Time) When { return When(at.UTC().Format(time.RFC3339Nano)) }

// QueryOptions say what to read.
type QueryOptions struct {
	// Expr is a filter expression. The empty one matches all records.
	Expr string
	// From and To are an hour ago and now if they are empty.
	From, To When
	// Zone is that of times that state none: "Europe/Berlin" or "+02:00". The default is UTC.
	Zone string
	// Limit is the maximum number of records of Query; 0 is none.
	Limit int
	// NewestFirst reverses the order of Query.
	NewestFirst bool
	// After is the id of a record behind which Query continues.
	After string
	// AllowPartial accepts an answer in which records may be missing. Stats tells whether that is so.
	AllowPartial bool
	// Stats receives the statistics at the end of the answer, if it is not nil.
	Stats *QueryStats
}

// QueryStats are the statistics of an answer.
type QueryStats struct {
	Matched        int64         `json:"matched"`
	Partial        bool          `json:"partial"`
	PartialReasons []string      `json:"partial_reasons"`
	TimedOut       bool          `json:"timed_out"`
	Hints          []string      `json:"hints"`
	NodesAsked     int64         `json:"nodes_asked"`
	NodesAnswered  int64         `json:"nodes_answered"`
	NodesMissing   []NodeMissing `json:"nodes_missing"`
	Seconds        float64       `json:"seconds"`
	BytesScanned   int64         `json:"bytes_scanned"`
	BytesSkipped   int64         `json:"bytes_skipped"`
	// What retention has moved to the trash of a node from the time of the query.
	TrashedSegments int64 `json:"trashed_segments"`
	TrashedRecords  int64 `json:"trashed_records"`
}

// NodeMissing is a node that did not answer to the end.
type NodeMissing struct {
	Node    string `json:"node"`
	Address string `json:"address"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Query yields the matching records as they arrive, oldest first. Leaving the loop cancels the query at the node.
//
// Its last pair has an error if the answer is not complete: a *StatusError if the node refuses the query, ErrIncomplete if the
// answer ends early, ErrInvalid if it is not what a node sends, and a *PartialError if records may be missing.
// It waits without a limit but that of the context. Before the first byte of an answer it tries each endpoint once.
func (c *Client) Query(ctx context.Context, options QueryOptions) iter.Seq2[StoredRecord, error] {
	return func(yield func(StoredRecord, error) bool) {
		var query parameters
		query.addQuery(options)
		if options.Limit != 0 {
			query.add("limit", strconv.Itoa(options.Limit))
		}
		if options.NewestFirst {
			query.add("order", "desc")
		}
		query.add("after", options.After)
		for line, err := range c.answer(ctx, "/api/v1/query", query) {
			switch {
			case err != nil:
				yield(StoredRecord{}, err)
				return
			case line.isRecord():
				if !yield(line.record(), nil) {
					return
				}
			case line.Stats != nil:
				if err := options.end(line.Stats); err != nil {
					yield(StoredRecord{}, err)
				}
				return
			}
		}
	}
}

// end hands the statistics over, and returns the error of a partial answer.
func (o QueryOptions) end(stats *QueryStats) error {
	if o.Stats != nil {
		*o.Stats = *stats
	}
	if stats.Partial && !o.AllowPartial {
		return &PartialError{Reasons: stats.PartialReasons}
	}
	return nil
}

// Count returns the exact number of matching records. It takes no notice of Limit, NewestFirst and After.
// With a *PartialError the number is a lower bound.
func (c *Client) Count(ctx context.Context, options QueryOptions) (int64, error) {
	var query parameters
	query.addQuery(options)
	response, err := c.get(ctx, "/api/v1/count", query)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	content, err := readAtMost(response.Body, answerBytesMax)
	if err != nil {
		return 0, errors.Join(ctx.Err(), err)
	}
	var answer struct {
		Count *int64      `json:"count"`
		Stats *QueryStats `json:"stats"`
	}
	if err := json.Unmarshal(content, &answer); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if answer.Count == nil || answer.Stats == nil {
		return 0, fmt.Errorf("%w: it has no count or no statistics", ErrInvalid)
	}
	return *answer.Count, options.end(answer.Stats)
}

// parameters are those of a call, encoded.
type parameters []string

// add adds a parameter, unless its value is empty.
func (p *parameters) add(name, value string) {
	if value != "" {
		*p = append(*p, name+"="+escape(value))
	}
}

func (p *parameters) addQuery(options QueryOptions) {
	*p = append(*p, "q="+escape(options.Expr))
	p.add("from", string(options.From))
	p.add("to", string(options.To))
	p.add("tz", options.Zone)
}

// get makes a call at the first endpoint that answers it. An endpoint that cannot be reached or is overloaded is passed over.
func (c *Client) get(ctx context.Context, path string, query parameters) (*http.Response, error) {
	var failures []error
	for i := range c.endpoints {
		response, err := c.getFrom(ctx, c.address(i, path, strings.Join(query, "&")))
		if err == nil {
			return response, nil
		}
		failures = append(failures, err)
		var status *StatusError
		if errors.As(err, &status) && outcomeOf(status.Status, nil, nil).result != retry || ctx.Err() != nil {
			break
		}
	}
	if len(failures) == 1 {
		return nil, failures[0]
	}
	return nil, errors.Join(failures...)
}

func (c *Client) getFrom(ctx context.Context, address string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/x-ndjson")
	response, err := c.requests.do(request)
	if err != nil {
		return nil, fmt.Errorf("bucksaw: %w", c.requests.withProblems(err))
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	content, _ := io.ReadAll(io.LimitReader(response.Body, errorBytesMax)) // The status suffices.
	return nil, fmt.Errorf("bucksaw: %w", c.requests.withProblems(statusError(response.StatusCode, content)))
}
