package observers

import (
	"testing"
	"time"
)

func TestPausesGrowUpToTheirMaximum(t *testing.T) {
	t.Parallel()
	b := backoff{10 * time.Millisecond, 5 * time.Second}
	for n := 1; n < 200; n++ {
		nominal := 5 * time.Second
		if n < 10 {
			nominal = min(nominal, 10*time.Millisecond<<(n-1))
		}
		for range 20 {
			if d := b.pause(n); d < nominal/2 || d > nominal {
				t.Fatalf("pause(%d) = %v, want %v to %v", n, d, nominal/2, nominal)
			}
		}
	}
}
