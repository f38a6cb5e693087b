package formats

import (
	"bytes"
	"math"
	"strings"
	"time"

	"github.com/gopercolator/percolator/internal/catalog/values"
	"github.com/gopercolator/percolator/percolator/model"
)

// The text of a value is that of its type (model.Type.Format and Parse), as commands show and take
// it. Files differ in what JSON and other programs call some values.

// byteOrderMark begins files of programs on Windows.
const byteOrderMark = "\ufeff"

// Names of numbers that JSON does not have.
const (
	notANumber  = "NaN"
	infinity    = "Infinity"
	negInfinity = "-Infinity"
)

func unusual(number string) bool {
	return number == notANumber || number == infinity || number == negInfinity
}

// textOf is a stored value as text. Its error is that of a value that is not of the type.
func textOf(of model.Type, stored []byte) ([]byte, error) {
	if of.IsText() {
		return stored, of.Check(stored)
	}
	text, err := of.Format(stored)
	if of == model.TypeFloat64 && strings.HasSuffix(text, "Inf") {
		text = strings.TrimPrefix(text, "+") + "inity"
	}
	return []byte(text), err
}

// ofText is the inverse of textOf, and takes what other programs write: times without a zone as
// UTC, True, TRUE, inf, nan. Its error says what to give, and holds nothing of the text.
func ofText(of model.Type, text []byte) ([]byte, error) {
	if of.IsText() && of.Check(text) == nil {
		return bytes.Clone(text), nil
	}
	switch of {
	case model.TypeTime:
		if at, ok := momentOf(string(text)); ok {
			return of.Encode(at)
		}
	case model.TypeBool:
		switch string(text) {
		case "True", "TRUE", "False", "FALSE":
			text = bytes.ToLower(text)
		}
	case model.TypeFloat64:
		if strings.EqualFold(string(text), notANumber) {
			return of.Encode(math.NaN())
		}
	}
	return of.Parse(string(text))
}

var moments = []string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07", time.DateOnly}

// momentOf is a time in ISO 8601, also with a blank before the time of day, or " UTC" behind it as
// BigQuery writes it. Without a zone it is in UTC, and a date is its midnight.
func momentOf(text string) (at time.Time, ok bool) {
	if clock, utc := strings.CutSuffix(text, " UTC"); utc {
		text = clock + "Z"
	}
	text = strings.Replace(text, " ", "T", 1)
	for _, form := range moments {
		if at, err := values.ParseTime(form, text); err == nil {
			return at, true
		}
	}
	return at, false
}
