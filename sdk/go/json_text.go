package bucksaw

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// appendString appends a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendString(out []byte, text string) []byte {
	out, _ = appendStringStart(append(out, '"'), text, math.MaxInt)
	return append(out, '"')
}

// appendStringStart appends, without quotes, as many whole characters as have at most bytesMax encoded bytes.
// It returns the number of bytes of text that they are.
func appendStringStart(out []byte, text string, bytesMax int) ([]byte, int) {
	begin := len(out)
	copied := 0 // Bytes before it are in out.
	for i := 0; i < len(text); {
		b := text[i]
		if ' ' <= b && b < utf8.RuneSelf && b != '"' && b != '\\' {
			if len(out)-begin+i-copied >= bytesMax {
				return append(out, text[copied:i]...), i
			}
			i++
			continue
		}
		size := 1
		var escaped []byte
		var space [6]byte
		if b < utf8.RuneSelf {
			escaped = appendEscape(space[:0], b)
		} else if r, length := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && length == 1 {
			escaped = append(space[:0], "\ufffd"...)
		} else {
			size = length
		}
		written := len(escaped)
		if escaped == nil {
			written = size
		}
		if len(out)-begin+i-copied+written > bytesMax {
			return append(out, text[copied:i]...), i
		}
		if escaped != nil {
			out = append(append(out, text[copied:i]...), escaped...)
			copied = i + size
		}
		i += size
	}
	return append(out, text[copied:]...), len(text)
}

func appendEscape(out []byte, b byte) []byte {
	switch b {
	case '"', '\\':
		return append(out, '\\', b)
	case '\n':
		return append(out, '\\', 'n')
	case '\r':
		return append(out, '\\', 'r')
	case '\t':
		return append(out, '\\', 't')
	default:
		return append(out, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
	}
}

// appendFloat appends a number as encoding/json does, and as text what is no number in JSON.
func appendFloat(out []byte, number float64) []byte {
	if math.IsNaN(number) || math.IsInf(number, 0) {
		return appendString(out, strconv.FormatFloat(number, 'g', -1, 64))
	}
	format := byte('f')
	if size := math.Abs(number); size != 0 && (size < 1e-6 || size >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(out, number, format, -1, 64)
}

// appendTime appends RFC 3339 in UTC with nine digits of nanoseconds.
func appendTime(out []byte, at time.Time) []byte {
	at = at.UTC()
	year, month, day := at.Date()
	if year < 0 || year > 9999 {
		return at.AppendFormat(out, "2006-01-02T15:04:05.000000000Z")
	}
	hour, minute, second := at.Clock()
	out = appendDigits(out, year, 1000)
	out = appendDigits(append(out, '-'), int(month), 10)
	out = appendDigits(append(out, '-'), day, 10)
	out = appendDigits(append(out, 'T'), hour, 10)
	out = appendDigits(append(out, ':'), minute, 10)
	out = appendDigits(append(out, ':'), second, 10)
	out = appendDigits(append(out, '.'), at.Nanosecond(), 100_000_000)
	return append(out, 'Z')
}

// appendDigits appends a number with leading zeros; unit is the value of its first digit.
func appendDigits(out []byte, number, unit int) []byte {
	for ; unit > 0; unit /= 10 {
		out = append(out, byte('0'+number/unit%10))
	}
	return out
}

// flattened is what the node makes of an object: attributes with names of dots.
type flattened struct {
	leaves    int
	nameBytes int // of the longest name
}

// flattenDepthMax is the depth to which the node opens objects. A deeper one stays JSON text.
const flattenDepthMax = 8

// flatten counts the attributes of a JSON value without spaces between its tokens, whose own name has nameBytes.
func flatten(text []byte, nameBytes int) flattened {
	var found flattened
	found.value(text, 0, nameBytes, flattenDepthMax)
	return found
}

// value visits the value at start, and returns the position behind it.
func (f *flattened) value(json []byte, start, nameBytes, depthLeft int) int {
	if depthLeft == 0 || json[start] != '{' || json[start+1] == '}' {
		f.leaves++
		f.nameBytes = max(f.nameBytes, nameBytes)
		return valueEnd(json, start)
	}
	for at := start; json[at] != '}'; {
		nameEnd := stringEnd(json, at+1)
		at = f.value(json, nameEnd+1, nameBytes+1+textBytes(json[at+1:nameEnd]), depthLeft-1)
		if json[at] == '}' {
			return at + 1
		}
	}
	return start
}

// textBytes returns the number of bytes of a name at the node, given as a JSON string.
func textBytes(quoted []byte) int {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return len(quoted) - 2
	}
	var text string
	_ = json.Unmarshal(quoted, &text) // It is valid.
	return storedBytes(text)
}

// stringEnd returns the position behind the string at start.
func stringEnd(json []byte, start int) int {
	for at := start + 1; ; at++ {
		switch json[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
}

// valueEnd returns the position behind the value at start.
func valueEnd(json []byte, start int) int {
	depth := 0
	for at := start; at < len(json); {
		switch json[at] {
		case '"':
			at = stringEnd(json, at)
			if depth == 0 {
				return at
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return at // The end of the object around a number or word.
			}
			if depth--; depth == 0 {
				return at + 1
			}
		case ',':
			if depth == 0 {
				return at
			}
		}
		at++
	}
	return len(json)
}
