package bucksaw

import (
	"fmt"
	"log/slog"
	"time"
)

// Record is a record to log.
type Record struct {
	// Time is now if it is zero.
	Time time.Time
	// Level is left out if it is NoLevel.
	Level Level
	// Message becomes the line of the record, without the line ends at its end.
	Message string
	// Attrs are the attributes. The node turns groups into names with dots.
	Attrs []slog.Attr
}

// Level is the severity of a record.
type Level uint8

// The levels, in ascending order.
const (
	NoLevel Level = iota
	LevelTrace
	LevelDebug
	LevelInfo
	LevelWarn
	LevelError
	LevelFatal
)

var levelNames = [...]string{"", "trace", "debug", "info", "warn", "error", "fatal"}

// String returns the name of the level; of NoLevel, and of a number that is no level, the empty text.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return ""
}

// LevelOf returns the level of a number of slog. A number between two levels is the lower one; those from 12 on are fatal.
func LevelOf(level slog.Level) Level {
	switch {
	case level < slog.LevelDebug:
		return LevelTrace
	case level < slog.LevelInfo:
		return LevelDebug
	case level < slog.LevelWarn:
		return LevelInfo
	case level < slog.LevelError:
		return LevelWarn
	case level < slog.LevelError+4:
		return LevelError
	default:
		return LevelFatal
	}
}

// Err returns the attributes exception.type and exception.message of an error, and none for nil.
// The attributes have the names of OpenTelemetry's semantic conventions.
func Err(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.Group("", slog.String("exception.type", fmt.Sprintf("%T", err)), slog.Any("exception.message", err))
}
