//go:build plantedbugs

package tso

import (
	"context"
	"errors"
	"flag"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/internal/planted"
	"github.com/gopercolator/percolator/tso/tsopb"
)

var plantedRounds = flag.Int("planted.rounds", 300, "how many rounds TestPlanted tries before it says that a mistake was not caught")

// TestPlanted shows that the checks are worth something: with each mistake of package
// planted in the oracle, rounds like those of TestFireRounds find that I1 is broken.
//
//	go test ./tso -tags plantedbugs -run TestPlanted -v
func TestPlanted(t *testing.T) {
	for _, bug := range planted.Oracle() {
		t.Run(string(bug), func(t *testing.T) {
			find := inRounds
			if bug == planted.LateCallerJoins {
				find = betweenClients
			}
			if err := find(t, 1); err != nil {
				t.Fatalf("found without the mistake: %v", err)
			}
			planted.Plant(bug)
			defer planted.Plant("")
			begun := time.Now()
			for n := range *plantedRounds {
				if err := find(t, uint64(n+1)); err != nil {
					t.Logf("caught in round %d, after %v: %v", n+1, time.Since(begun).Round(time.Millisecond), err)
					return
				}
			}
			t.Errorf("not caught in %d rounds, %v", *plantedRounds, time.Since(begun).Round(time.Millisecond))
		})
	}
}

// inRounds returns what a round finds of disorder.
func inRounds(t *testing.T, seed uint64) (found error) {
	synctest.Test(t, func(t *testing.T) {
		for _, err := range runRound(t, seed) {
			if errors.Is(err, errDisorder) {
				found = errors.Join(found, err)
			}
		}
	})
	return found
}

// betweenClients returns what the callers of two clients find of disorder. The answer to
// a request of the first client is on its way while a caller of the second one gets a
// timestamp, and after that another caller comes to the first client.
func betweenClients(t *testing.T, _ uint64) error {
	var c counter
	arrived, release := make(chan struct{}, 8), make(chan struct{}, 8)
	server := startScripted(t, func(ctx context.Context, n uint32) (*tsopb.NextResponse, error) {
		resp, err := c.next(ctx, n)
		arrived <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return resp, err
	})
	release <- struct{}{} // Dial's
	client := dial(t, server.address, WithCallTimeout(heldFor))
	<-arrived

	w := newWitness()
	results := make(chan error, 2)
	ask := func() {
		caller := w.caller()
		go func() { results <- caller.call(false, func() (Timestamp, error) { return client.Next(t.Context()) }) }()
	}
	ask()
	<-arrived
	early := 0 // callers who wait, and have not been asked for
	if planted.On(planted.LateCallerJoins) {
		early = 1
	}
	eventually(t, "the first caller waits", func() bool { return client.batch.waiting() == early })
	if err := w.caller().call(false, func() (Timestamp, error) {
		resp, err := c.next(t.Context(), 1)
		return Timestamp(resp.GetFirst()), err
	}); err != nil {
		t.Fatal(err)
	}
	ask()
	eventually(t, "another caller waits", func() bool { return client.batch.waiting() == early+1 })
	for range cap(release) {
		release <- struct{}{}
	}
	err := errors.Join(<-results, <-results)
	if err != nil && !errors.Is(err, errDisorder) {
		t.Error(err)
	}
	return err
}

// heldFor is longer than an answer is held.
const heldFor = 30 * time.Second
