package simulated_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
	"github.com/gopercolator/percolator/internal/engine/retry"
)

// often is a rate at which a kind happens to some requests, and not to others.
func often(kind simulated.Fault) simulated.Config {
	var rates simulated.Rates
	rates[kind] = 0.5
	return simulated.Config{Seed: 1, Rates: rates}
}

// A cluster without rates makes no mistakes.
func TestNoFaultsWithoutRates(t *testing.T) {
	t.Parallel()
	simulate(t, simulated.Config{Seed: 1}, func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		rows := numbered(300)
		for _, row := range rows {
			if err := p.create(row); err != nil {
				t.Error(err)
			}
		}
		if errs, err := p.write(rows...); errs != nil || err != nil {
			t.Error(errs, err)
		}
		if got, err := p.read(); err != nil || !slices.Equal(got, rows) {
			t.Error(got, err)
		}
		if _, err := p.SampleKeys(p.ctx, "t"); code(err) != "InvalidArgument" {
			t.Errorf("without a deadline: %v", err)
		}
		if c.Faults() != (simulated.Counts{}) || c.Faults().String() != "" {
			t.Errorf("faults: %v", c.Faults())
		}
	})
}

// A request that is lost is never applied; its caller gets an error, or waits for its deadline.
func TestLostRequests(t *testing.T) {
	t.Parallel()
	simulate(t, often(simulated.RequestLost), func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		waited, failed := 0, 0
		rows := numbered(60)
		for _, row := range rows {
			begun := time.Now()
			switch err := p.create(row); {
			case err == nil != exists(t, c, row):
				t.Errorf("%s: %v, exists: %v", row, err, exists(t, c, row))
			case err != nil && time.Since(begun) == lifetime:
				waited++
			case err != nil:
				failed++
			}
		}
		before := slices.DeleteFunc(slices.Clone(rows), func(row string) bool { return !exists(t, c, row) })
		time.Sleep(2 * lifetime)
		after := slices.DeleteFunc(slices.Clone(rows), func(row string) bool { return !exists(t, c, row) })
		if waited == 0 || failed == 0 || !slices.Equal(before, after) {
			t.Errorf("%d waited, %d failed; there were %q, later %q", waited, failed, before, after)
		}
		only(t, c, simulated.RequestLost)
	})
}

// A request whose answer is lost is applied.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, kind := range []simulated.Fault{simulated.AnswerLost, simulated.ErrorAfter} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			simulate(t, often(kind), func(t *testing.T, c *simulated.Cluster) {
				p := connect(t, c, "p")
				failed := 0
				for _, row := range numbered(60) {
					err := p.create(row)
					if err != nil {
						failed++
						if !retry.Ambiguous(err) {
							t.Errorf("%v leaves no doubt", err)
						}
					}
					if !exists(t, c, row) {
						t.Errorf("%s is missing: %v", row, err)
					}
				}
				if failed == 0 || failed == 60 {
					t.Errorf("%d failed", failed)
				}
				only(t, c, kind)
			})
		})
	}
}

// Every code comes before a request is applied.
func TestErrorsBefore(t *testing.T) {
	t.Parallel()
	simulate(t, often(simulated.ErrorBefore), func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		seen := map[codes.Code]bool{}
		for _, row := range numbered(400) {
			err := p.create(row)
			if seen[status.Code(err)] = true; (err == nil) != exists(t, c, row) {
				t.Errorf("%s: %v, exists: %v", row, err, exists(t, c, row))
			}
		}
		if len(seen) != int(codes.Unauthenticated)+1 {
			t.Errorf("%d codes: %v", len(seen), seen)
		}
		only(t, c, simulated.ErrorBefore)
	})
}

// Google's client reads on where a stream broke, and reports what it does not repeat.
func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	simulate(t, often(simulated.StreamBroken), func(t *testing.T, c *simulated.Cluster) {
		rows := numbered(100)
		c.SetRates(simulated.Rates{})
		p := connect(t, c, "p")
		if _, err := p.write(rows...); err != nil {
			t.Fatal(err)
		}
		c.SetRates(often(simulated.StreamBroken).Rates)
		whole, broken := 0, 0
		for i := range 120 {
			read, seen := p.read, strings.HasPrefix
			if i%2 == 1 {
				read, seen = p.readDown, strings.HasSuffix
			}
			got, err := read()
			switch {
			case err == nil && slices.Equal(got, rows):
				whole++
			case err != nil && len(got) < len(rows) && seen(strings.Join(rows, " "), strings.Join(got, " ")):
				broken++
			default:
				t.Errorf("%q, %v", got, err)
			}
		}
		if whole == 0 || broken == 0 {
			t.Errorf("%d reads were whole, %d broken", whole, broken)
		}
		only(t, c, simulated.StreamBroken)
	})
}

// Entries of one request fail alone: refused, or applied and reported as failed.
func TestFaultsOfEntries(t *testing.T) {
	t.Parallel()
	for _, kind := range []simulated.Fault{simulated.EntryRefused, simulated.EntryUnreported} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			simulate(t, often(kind), func(t *testing.T, c *simulated.Cluster) {
				p := connect(t, c, "p")
				rows, failed := numbered(100), 0
				errs, err := p.write(rows...)
				if err != nil {
					t.Fatal(err)
				}
				for i, row := range rows {
					there := exists(t, c, row)
					switch e := errs[i]; {
					case e == nil && !there, e != nil && there != (kind == simulated.EntryUnreported):
						t.Errorf("%s: %v, exists: %v", row, e, there)
					case e != nil:
						failed++
						if c := code(e); c == "Unavailable" || c == "Aborted" || c == "DeadlineExceeded" {
							t.Errorf("%s was not repeated", c)
						}
					}
				}
				if failed == 0 || failed == len(rows) {
					t.Errorf("%d failed", failed)
				}
				only(t, c, kind)
			})
		})
	}
}

// Slow disks let a request take up to its whole lifetime.
func TestSlowDisks(t *testing.T) {
	t.Parallel()
	simulate(t, often(simulated.SlowDisk), func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		slow, quick := 0, 0
		for _, row := range numbered(60) {
			begun := time.Now()
			err := p.create(row)
			switch d := time.Since(begun); {
			case d > lifetime || err != nil && d < lifetime:
				t.Errorf("%v after %v", err, d)
			case d > lifetime/10:
				slow++
			case d < 100*time.Millisecond:
				quick++
			}
		}
		if slow == 0 || quick == 0 {
			t.Errorf("%d were slow, %d quick", slow, quick)
		}
		only(t, c, simulated.SlowDisk)
	})
}
