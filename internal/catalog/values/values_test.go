package values

import (
	"testing"
	"time"
)

// time.Parse takes offsets up to +24:60.
func TestParseTimeRefusesOffsetsThatNoZoneHas(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"2026-01-02T15:04:05Z": true, "2026-01-02T15:04:05+14:00": true, "2026-01-02T15:04:05.25-23:59": true,
		"2026-01-02T15:04:05+24:60": false, "2026-01-02T15:04:05-24:00": false, "2026-01-02T15:04:05+05:60": false,
	} {
		if _, err := ParseTime(time.RFC3339Nano, text); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := ParseTime(time.DateOnly, "2026-01-24"); err != nil {
		t.Error(err)
	}
}
