package oracle

import (
	"strconv"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/tso"
)

func TestParseMark(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]tso.Timestamp{
		"now": tso.At(now), "now+10m": tso.At(now.Add(10 * time.Minute)), "2026-06-01T12:00:01Z": tso.At(now.Add(time.Second)),
		"12345": 12345, strconv.FormatInt(int64(tso.MaxTimestamp), 10): tso.MaxTimestamp,
	} {
		if got, err := ParseMark(text, now); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "now-10m", "now+", "now10m", "tomorrow", "9223372036854775807", "2026-06-01T12:00:01+24:60"} {
		if got, err := ParseMark(text, now); cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}
