package scanning

import (
	"testing"
	"time"
)

func testPace() *Pace { return &Pace{Random: seeded()} }

func TestPaceSlowsDownWithoutWork(t *testing.T) {
	t.Parallel()
	p := testPace()
	about := func(got, want time.Duration) bool { return got >= want*3/4 && got <= want*5/4 }
	for range 100 {
		if d := p.Next(true, time.Millisecond); !about(d, minPause) {
			t.Fatalf("pause %v while there is work", d)
		}
	}
	for want := 2 * minPause; want < maxPause; want *= 2 {
		if d := p.Next(false, time.Millisecond); !about(d, want) {
			t.Fatalf("pause %v, want about %v", d, want)
		}
	}
	for range 3 {
		if d := p.Next(false, time.Millisecond); !about(d, maxPause) {
			t.Fatalf("pause %v when idle", d)
		}
	}
	if d := p.Next(false, 5*time.Second); d != 15*time.Second {
		t.Fatalf("pause %v after 5 s of reading that were not needed", d)
	}
	if d := p.Next(false, time.Minute); d != maxRest {
		t.Fatalf("pause %v after a minute of reading that was not needed", d)
	}
	if d := p.Next(true, time.Second); d != time.Second {
		t.Fatalf("pause %v after a second of reading that was needed", d)
	}
	p.Next(false, 0)
	p.Reset()
	if d := p.Next(false, 0); !about(d, minPause) {
		t.Fatalf("pause %v after a reset", d)
	}
	if d := (&Pace{Fixed: time.Hour}).Next(true, 0); d != time.Hour {
		t.Fatalf("pause %v, want the fixed one", d)
	}
}

// A scanner that finds nothing searches at most 40 times a minute, once its pauses have grown.
func TestIdleSearches(t *testing.T) {
	t.Parallel()
	for range 100 {
		p := testPace()
		for p.current < maxPause {
			p.Next(false, 0)
		}
		searches := 0
		for passed := time.Duration(0); passed < time.Minute; searches++ {
			passed += p.Next(false, 0)
		}
		if searches > 40 {
			t.Fatalf("%d searches in a minute", searches)
		}
	}
}
