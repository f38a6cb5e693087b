package percolator

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/gopercolator/percolator/internal/catalog/values"
)

// Key returns a row key made of parts. Keys sort by the first part, then by the second, and so on,
// each in the order of its type. Prefix(key) is the range of the keys that begin with the parts of
// key. A part is a string, a []byte, an integer of any size, a float64, a bool or a time.Time, or
// of a type that is made of one of these:
//
//	Key("order", "ann", 7, time.Date(2026, 1, 31, …)) // order!ann!a7!2026-01-31T00:00:00.000000000Z!
//
// Unlike the tuple layer of FoundationDB and the keys of CockroachDB, which do the same in bytes, a
// key is text in which "!" ends each part, so people can read it in a log and type it at a prompt.
// Numbers take up to three times as many bytes. A key does not record the types of its parts: use
// one type for each position.
//
//	string     as it is; bytes up to "#", among them the space, as "#" and two hexadecimal digits
//	[]byte     two hexadecimal digits for each byte
//	integers   a letter for the number of digits, "a" for one, and the digits; below 0 "-", a letter
//	           from "z" down, and each digit's difference to 9
//	float64    16 hexadecimal digits, of the bytes of a Float64 column; NaN is refused
//	bool       false, true
//	time.Time  in UTC, as RFC 3339 has it, with nanoseconds, in the years 0 to 9999; the location is
//	           lost
//
// Errors: ErrInvalidArgument for another type or value, and without any part; ErrTooLarge for a key
// of more than MaxRowKeyBytes.
func Key(parts ...any) (string, error) {
	if len(parts) == 0 {
		return "", keyError(errors.New("a key has one part at least"))
	}
	var key strings.Builder
	for i, part := range parts {
		text, err := keyText(reflect.ValueOf(part))
		if err != nil {
			return "", keyError(fmt.Errorf("part %d: %w", i+1, err))
		}
		key.WriteString(text)
		key.WriteString(keyEnd)
	}
	if key.Len() > MaxRowKeyBytes {
		return "", fmt.Errorf("percolator: row key: %w: it has %d bytes, the limit is %d", ErrTooLarge, key.Len(), MaxRowKeyBytes)
	}
	return key.String(), nil
}

// ParseKey is the inverse of Key: it sets the variables to which into points, one for each part and
// of its type. Errors: ErrInvalidArgument if the key does not have exactly these parts; some
// variables may be set by then.
func ParseKey(key string, into ...any) error {
	rest := key
	for i, p := range into {
		v := reflect.ValueOf(p)
		if v.Kind() != reflect.Pointer || v.IsNil() {
			return keyError(fmt.Errorf("part %d: ParseKey takes pointers to variables", i+1))
		}
		text, after, ok := strings.Cut(rest, keyEnd)
		if !ok {
			return keyError(fmt.Errorf("it has %d parts, and not %d", i, len(into)))
		}
		err := parseKeyText(text, v.Elem())
		if err == nil { // there is one text of each value
			var again string
			if again, err = keyText(v.Elem()); again != text {
				err = errNotKeyText(v.Elem())
			}
		}
		if err != nil {
			return keyError(fmt.Errorf("part %d: %w", i+1, err))
		}
		rest = after
	}
	if rest != "" {
		return keyError(fmt.Errorf("it has more than %d parts", len(into)))
	}
	return nil
}

func keyError(err error) error {
	return fmt.Errorf("percolator: row key: %w: %w", ErrInvalidArgument, err)
}

const (
	keyEnd    = "!" // ends a part, and sorts before whatever may stand in one
	keyEscape = '#' // the last byte that is escaped, so an escape sorts before the other bytes
	keyTime   = "2006-01-02T15:04:05.000000000Z"
)

var typeOfTime = reflect.TypeFor[time.Time]()

// keyText is a part without its end.
func keyText(v reflect.Value) (string, error) {
	switch {
	case !v.IsValid():
	case v.Type() == typeOfTime:
		return keyTextOfTime(v.Interface().(time.Time))
	case v.Kind() == reflect.String:
		return escapeKeyText(v.String()), nil
	case isBytes(v.Type()):
		return hex.EncodeToString(v.Bytes()), nil
	case v.CanInt() && v.Int() < 0:
		return keyTextOfNegative(v.Int()), nil
	case v.CanInt():
		return keyTextOfDigits(uint64(v.Int())), nil
	case v.CanUint():
		return keyTextOfDigits(v.Uint()), nil
	case v.Kind() == reflect.Float64:
		b, err := encodeFloat64(v.Float())
		return hex.EncodeToString(b), err
	case v.Kind() == reflect.Bool:
		return strconv.FormatBool(v.Bool()), nil
	default:
		return "", fmt.Errorf("a %v cannot be in a key", v.Type())
	}
	return "", errors.New("nil cannot be in a key")
}

// parseKeyText sets v to what a text stands for. It may take texts that keyText never makes.
func parseKeyText(text string, v reflect.Value) (err error) {
	switch {
	case v.Type() == typeOfTime:
		var t time.Time
		t, err = time.Parse(keyTime, text)
		v.Set(reflect.ValueOf(t))
	case v.Kind() == reflect.String:
		var s string
		s, err = unescapeKeyText(text)
		v.SetString(s)
	case isBytes(v.Type()):
		var b []byte
		b, err = hex.DecodeString(text)
		v.SetBytes(b)
	case v.CanInt():
		var n int64
		n, err = parseKeyInt(text)
		if v.OverflowInt(n) {
			err = strconv.ErrRange
		}
		v.SetInt(n)
	case v.CanUint():
		var n uint64
		if n, err = strconv.ParseUint(text[min(1, len(text)):], 10, 64); v.OverflowUint(n) {
			err = strconv.ErrRange
		}
		v.SetUint(n)
	case v.Kind() == reflect.Float64:
		var b []byte
		var f float64
		if b, err = hex.DecodeString(text); err == nil {
			f, err = values.DecodeFloat64(b)
		}
		v.SetFloat(f)
	case v.Kind() == reflect.Bool:
		v.SetBool(text == "true")
	default:
		return fmt.Errorf("a %v cannot be in a key", v.Type())
	}
	if err != nil {
		return errNotKeyText(v)
	}
	return nil
}

func errNotKeyText(v reflect.Value) error { return fmt.Errorf("it is not of type %v", v.Type()) }

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

func escapeKeyText(s string) string {
	n := 0
	for i := range len(s) {
		if s[i] <= keyEscape {
			n++
		}
	}
	if n == 0 {
		return s
	}
	out := make([]byte, 0, len(s)+2*n)
	for i := range len(s) {
		if s[i] <= keyEscape {
			out = fmt.Appendf(out, "%c%02x", keyEscape, s[i])
		} else {
			out = append(out, s[i])
		}
	}
	return string(out)
}

func unescapeKeyText(text string) (string, error) {
	var out strings.Builder
	for {
		plain, after, escaped := strings.Cut(text, string(keyEscape))
		out.WriteString(plain)
		if !escaped {
			return out.String(), nil
		}
		if len(after) < 2 {
			return "", hex.ErrLength
		}
		b, err := hex.DecodeString(after[:2])
		if err != nil {
			return "", err
		}
		out.Write(b)
		text = after[2:]
	}
}

// keyTextOfDigits is a number of 0 and above: more digits come after fewer ones.
func keyTextOfDigits(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	return string(rune('a'+len(digits)-1)) + digits
}

// keyTextOfNegative is a number below 0: the greater its magnitude, the earlier it comes.
func keyTextOfNegative(n int64) string {
	digits := []byte(strconv.FormatUint(-uint64(n), 10))
	complement(digits)
	return "-" + string(rune('z'-len(digits)+1)) + string(digits)
}

func complement(digits []byte) {
	for i, d := range digits {
		if d >= '0' && d <= '9' {
			digits[i] = '0' + '9' - d
		}
	}
}

func parseKeyInt(text string) (int64, error) {
	if len(text) < 2 {
		return 0, strconv.ErrSyntax
	}
	if text[0] != '-' {
		return strconv.ParseInt(text[1:], 10, 64)
	}
	digits := []byte(text[2:])
	complement(digits)
	n, err := strconv.ParseUint(string(digits), 10, 64)
	if n > -math.MinInt64 {
		err = strconv.ErrRange
	}
	return -int64(n), err
}

// keyTextOfTime refuses years that do not have four digits, which would not sort.
func keyTextOfTime(t time.Time) (string, error) {
	if t = t.UTC(); t.Year() < 0 || t.Year() > 9999 {
		return "", errors.New("a time in a key has a year from 0 to 9999")
	}
	return t.Format(keyTime), nil
}
