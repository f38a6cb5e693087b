package retry

import (
	"testing"
	"testing/synctest"
	"time"
)

// A pause is around what was asked for, and grows beyond it.
func TestPausesAreAroundWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const around, limit = 100 * time.Millisecond, 2 * time.Second
		b := NewBackoff(time.Millisecond, limit)
		for i := range 30 {
			started := time.Now()
			if err := b.WaitAtLeast(t.Context(), around); err != nil {
				t.Fatal(err)
			}
			least, most := around/2, max(around, min(time.Millisecond<<i, limit))*3/2
			if i > 20 {
				least = limit / 2
			}
			if took := time.Since(started); took < least || took > most {
				t.Errorf("pause %d took %v, want %v to %v", i, took, least, most)
			}
		}
		started := time.Now()
		if err := NewBackoff(time.Millisecond, limit).WaitAtLeast(t.Context(), 0); err != nil || time.Since(started) > 2*time.Millisecond {
			t.Errorf("where requests take no time: %v, %v", time.Since(started), err)
		}
	})
}
