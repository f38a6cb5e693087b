package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/vbauerster/mpb/v8/decor"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/percolator"
)

// Bytes is a size for people.
func Bytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("% .1f", decor.SizeB1024(n))
}

// Counted is a number of things, of which one has no s.
func Counted[N int | int64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Shortened cuts the middle out of a text that is wider than n characters.
func Shortened(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	tail := (n - 1) / 3
	return string(runes[:n-1-tail]) + "…" + string(runes[len(runes)-tail:])
}

// Age is how long ago something was, in whole seconds.
func Age(now, at time.Time) string {
	return max(0, now.Sub(at)).Truncate(time.Second).String() + " ago"
}

// OneLine makes a text harmless in a table.
func OneLine(text string) string {
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// CellText is percolator.Cell.String with the row of an index entry, which that leaves out.
func CellText(c percolator.Cell) string {
	return RowName(Shown(c.Table), c.Row) + "/" + strconv.Quote(c.Column)
}

// ShortError leaves out of an error of gRPC what says only that it is one.
func ShortError(err error) string {
	if st, ok := status.FromError(err); ok {
		text := st.Message()
		for _, prefix := range []string{"desc = ", "Error while dialing: ", "transport: "} {
			if i := strings.LastIndex(text, prefix); i >= 0 {
				text = text[i+len(prefix):]
			}
		}
		return strings.Trim(text, `"`)
	}
	return err.Error()
}

// OrDash keeps the columns of a table apart, and what others have stored harmless.
func OrDash(text string) string {
	return cmp.Or(OneLine(text), "-")
}
