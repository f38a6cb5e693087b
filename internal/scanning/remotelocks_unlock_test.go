package scanning

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
)

// slowUnlock holds a request that unlocks back, once it was sent.
type slowUnlock struct {
	lossyLocks
	sent, goOn chan struct{}
}

func (s *slowUnlock) UnlockRows(ctx context.Context, holder string, rows []uint64) error {
	s.sent <- struct{}{}
	<-s.goOn
	return s.lossyLocks.UnlockRows(ctx, holder, rows)
}

// TestRowIsNotUnlockedUnderItsScanner: a row that is finished is taken again by a scanner of the
// same worker while the request that unlocks it is under way.
func TestRowIsNotUnlockedUnderItsScanner(t *testing.T) {
	s := &slowUnlock{lossyLocks{held: map[uint64]string{}, answer: 1}, make(chan struct{}), make(chan struct{})}
	l := NewRemoteLocks(s, func(rows []layout.RowID) []bool { return make([]bool, len(rows)) }, time.Now)
	rows := []model.Pending{{Table: "t", Row: "a"}}
	if l.Lock(t.Context(), rows) != 1 {
		t.Fatal("not locked")
	}
	done := make(chan struct{})
	go func() { l.Done(t.Context(), rows); close(done) }()
	<-s.sent
	again := make(chan int)
	go func() { again <- l.Lock(t.Context(), rows) }()
	close(s.goOn)
	<-done
	if <-again != 1 {
		t.Fatal("not locked again")
	}
	if s.held[hash("t", "a")] == "" {
		t.Error("the scanner has the row in hand, and the service has unlocked it")
	}
}
