package bucksaw

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// answerLineBytesMax is the maximum length of a line of an answer.
const answerLineBytesMax = 16 << 20

// answerLine is a line of an answer: a record, a notice, the statistics, or of a kind that later nodes send.
type answerLine struct {
	ID               *string           `json:"id"`
	Time             time.Time         `json:"time"`
	Labels           map[string]string `json:"labels"`
	Attributes       map[string]string `json:"attributes"`
	AttributesBase64 map[string][]byte `json:"attributes_base64"`
	Line             *string           `json:"line"`
	LineBase64       []byte            `json:"line_base64"`
	Cut              bool              `json:"cut"`
	Unterminated     bool              `json:"unterminated"`

	SkippedBytes   *int64  `json:"skipped_bytes"`
	SkippedRecords *int64  `json:"skipped_records"`
	Lost           *string `json:"lost"`
	Joined         bool    `json:"joined"`
	Node           string  `json:"node"`

	Stats *QueryStats `json:"stats"`
}

func (l *answerLine) isRecord() bool { return l.ID != nil && (l.Line != nil || l.LineBase64 != nil) }

func (l *answerLine) record() StoredRecord {
	record := StoredRecord{
		ID: *l.ID, Time: l.Time, Labels: l.Labels, Attributes: l.Attributes, Line: l.LineBase64,
		Cut: l.Cut, Unterminated: l.Unterminated,
	}
	if l.Line != nil {
		record.Line = []byte(*l.Line)
	}
	if record.Attributes == nil && len(l.AttributesBase64) > 0 {
		record.Attributes = map[string]string{}
	}
	for name, value := range l.AttributesBase64 {
		record.Attributes[name] = string(value)
	}
	return record
}

// answer yields the lines of an answer. The last pair is an error, unless the caller stops before.
func (c *Client) answer(ctx context.Context, path string, query parameters) iter.Seq2[*answerLine, error] {
	return func(yield func(*answerLine, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		response, err := c.get(ctx, path, query)
		if err != nil {
			yield(nil, err)
			return
		}
		defer response.Body.Close()
		lines := bufio.NewReaderSize(response.Body, 64<<10)
		var long []byte
		for number := 1; ; number++ {
			text, readErr := readLine(lines, &long)
			if readErr != nil && !errors.Is(readErr, io.EOF) {
				if ctx.Err() != nil {
					readErr = fmt.Errorf("bucksaw: %w", ctx.Err())
				}
				yield(nil, readErr)
				return
			}
			if text = bytes.TrimSpace(text); len(text) > 0 {
				line := new(answerLine)
				err := json.Unmarshal(text, line)
				if err != nil && readErr == nil {
					yield(nil, fmt.Errorf("%w: line %d: %w", ErrInvalid, number, err))
					return
				}
				if err == nil && !yield(line, nil) {
					return
				}
			}
			if readErr != nil {
				yield(nil, ErrIncomplete)
				return
			}
		}
	}
}

// readLine returns a line, valid until the next call. With io.EOF it is the last, without a line end.
func readLine(from *bufio.Reader, long *[]byte) ([]byte, error) {
	*long = (*long)[:0]
	for {
		part, err := from.ReadSlice('\n')
		if err == nil && len(*long) == 0 {
			return part, nil
		}
		if len(*long)+len(part) > answerLineBytesMax {
			return nil, fmt.Errorf("%w: a line is longer than 16 MiB", ErrInvalid)
		}
		*long = append(*long, part...)
		switch {
		case err == nil, err == io.EOF:
			return *long, err
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%w: %w", ErrIncomplete, err)
		}
	}
}
