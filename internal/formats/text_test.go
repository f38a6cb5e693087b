package formats

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
)

// Times have the forms of BigQuery, Spark, pandas and DuckDB; whatever leaves open which moment it
// is means none.
func TestTimesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2024-01-02 03:04:05.123456 UTC":   "2024-01-02T03:04:05.123456Z",
		"2024-01-02 03:04:05 UTC":          "2024-01-02T03:04:05Z",
		"2024-01-02T03:04:05.123456":       "2024-01-02T03:04:05.123456Z",
		"2024-01-02T03:04:05.123Z":         "2024-01-02T03:04:05.123Z",
		"2024-01-02T03:04:05.123+01:00":    "2024-01-02T02:04:05.123Z",
		"2024-01-02 03:04:05.123456789":    "2024-01-02T03:04:05.123456789Z",
		"2024-01-02 03:04:05.123456+00:00": "2024-01-02T03:04:05.123456Z",
		"2024-01-02 03:04:05-08":           "2024-01-02T11:04:05Z",
		"2024-01-02T03:04:05+0530":         "2024-01-01T21:34:05Z",
		"2024-01-02":                       "2024-01-02T00:00:00Z",
		"1704164645":                       "", "1704164645.5": "", "20240102": "", "2024-13-02": "", "2024-01-02 UTC": "", "02/01/2024": "", "2024-01-02 03:04:05 CET": "", "": "",
		"2024-01-02T03:04:05.1234567890Z":  "2024-01-02T03:04:05.123456789Z",
		"2024-01-02T03:04:05.123456789000": "2024-01-02T03:04:05.123456789Z",
		"2024-01-02T03:04:05.1234567891Z":  "", "2024-01-02 03:04:05,0000000000005 UTC": "",
		"2024-01-02 03:04:05  UTC": "", "3000-01-01": "", "2024-01-02 03:04": "", " 2024-01-02": "",
	} {
		stored, err := ofText(model.TypeTime, []byte(text))
		if want == "" {
			if err == nil {
				t.Errorf("%q is %x", text, stored)
			}
			continue
		}
		at, _ := time.Parse(time.RFC3339Nano, want)
		if got, derr := model.TypeTime.Decode(stored); err != nil || derr != nil || !at.Equal(got.(time.Time)) {
			t.Errorf("%q is %v, %v, %v, want %s", text, got, err, derr, want)
		}
	}
}
