package exportqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
)

// attemptWith is attempt with a delivery function that is given the batch.
func (e *env) attemptWith(slice string, deliver func([]exportqueue.Entry) error) (tx *percolator.Txn, notified percolator.Cell, err error) {
	e.Helper()
	tx = e.begin(e.client)
	notified, err = e.queue.Run(e.ctx, e.client, tx, 0, slice, func(_ context.Context, b []exportqueue.Entry) error { return deliver(b) })
	return tx, notified, err
}

// A rejection that cannot be, because one of its entries is not of the batch, buries none of the
// others, not even in a run that commits because it leaves its slice to the backlog.
func TestARejectionThatCannotBeBuriesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t, withDeadLetters)
	e.add("k", "1")
	e.Clock.Advance(apart)
	slice := e.addAt("k", "2")
	tx, notified, err := e.attemptWith(slice, func(b []exportqueue.Entry) error {
		stranger := b[0]
		stranger.Seq++
		return exportqueue.Reject(nil, b[0], stranger)
	})
	if err == nil {
		e.commit(tx)
		e.erase(notified, tx.StartTimestamp())
	}
	if l := e.letters(); len(l) != 0 || len(e.pending()) != 2 {
		t.Errorf("dead letters %v, in the queue %v", l, e.pending())
	}
}

// The delivery function may do with the batch what it likes, such as keep in place what is refused:
// a dead letter is what its entry was. To refuse none, or one twice, is no mistake.
func TestDeadLettersOfABatchThatTheReceiverChanged(t *testing.T) {
	t.Parallel()
	e := newEnv(t, withDeadLetters)
	for i := range 3 {
		e.add("k", fmt.Sprint(i))
	}
	var want exportqueue.Entry
	tx, _, err := e.attemptWith(e.notified()[0], func(b []exportqueue.Entry) error {
		want = b[2]
		refused := slices.DeleteFunc(b, func(x exportqueue.Entry) bool { return string(x.Value) != "2" })
		refused[0].Value[0] = 'x'
		return exportqueue.Reject(errors.New("bad"), refused[0], refused[0])
	})
	if err != nil {
		t.Fatal(err)
	}
	e.commit(tx)
	letters := e.letters()
	if len(letters) != 1 || letters[0].StartTS != want.StartTS || string(letters[0].Value) != "2" || len(e.pending()) != 0 {
		t.Errorf("dead letters %v, want %v with value 2; left %v", letters, want.StartTS, e.pending())
	}
	e.add("k", "3")
	if tx, _, err = e.attemptWith(e.notified()[0], func([]exportqueue.Entry) error { return exportqueue.Reject(nil) }); err != nil {
		t.Fatal(err)
	}
	e.commit(tx)
	if len(e.letters()) != 1 || len(e.pending()) != 0 {
		t.Errorf("none is refused: dead letters %v, left %v", e.letters(), e.pending())
	}
}

// What several rejections refuse, joined, becomes dead letters, each with its own reason. A
// rejection beside another failure is a failure: not all the others were taken.
func TestJoinedRejections(t *testing.T) {
	t.Parallel()
	e := newEnv(t, withDeadLetters)
	for i := range 3 {
		e.add("k", fmt.Sprint(i))
	}
	slice := e.notified()[0]
	_, _, err := e.attemptWith(slice, func(b []exportqueue.Entry) error {
		return errors.Join(exportqueue.Reject(errors.New("bad"), b[0]), errDown)
	})
	if !errors.Is(err, errDown) {
		t.Errorf("a rejection and a failure: %v", err)
	}
	tx, notified, err := e.attemptWith(slice, func(b []exportqueue.Entry) error {
		return errors.Join(exportqueue.Reject(errors.New("too old"), b[0]), exportqueue.Reject(errors.New("too long"), b[1]))
	})
	if err != nil {
		t.Fatal(err)
	}
	e.commit(tx)
	e.erase(notified, tx.StartTimestamp())
	var got []string
	for _, l := range e.letters() {
		got = append(got, string(l.Value)+": "+l.Reason)
	}
	if !slices.Equal(got, []string{"0: too old", "1: too long"}) {
		t.Errorf("dead letters %v, left %v", got, e.pending())
	}
}

// A dead letter from below the position is retried while the receiver is down. The next entry
// delivers it with its own, as it does whatever is parked.
func TestRetryBelowThePositionWhileTheReceiverIsDown(t *testing.T) {
	t.Parallel()
	e := newEnv(t, withDeadLetters)
	w, stop := e.exportTo(e.client, e.client, (&refusing{values: []string{"bad"}}).deliver, observers.Config{})
	e.add("k", "bad")
	e.idle(w)
	for range 3 {
		e.Clock.Advance(beyond)
		e.add("k", "later")
		e.idle(w)
	}
	stop()
	down := receiver{fail: func(int) error { return errDown }}
	w, stop = e.export(e.client, &down, observers.Config{MaxAttempts: 2})
	if err := e.update(e.letters()[0].Retry); err != nil {
		t.Fatal(err)
	}
	e.idle(w)
	stop()
	e.Clock.Advance(apart)
	e.add("k", "next")
	var to receiver
	w, stop = e.export(e.client, &to, observers.Config{})
	e.idle(w)
	stop()
	if got := values(to.entries()); !slices.Equal(got, []string{"k=bad", "k=next"}) || len(e.pending())+len(e.parked()) != 0 {
		t.Errorf("delivered %v, left %v, parked %v", got, e.pending(), e.parked())
	}
}

// A retry that saw the position below its entry conflicts with a run that moves the position past
// it (I22): otherwise no run but that of its own slice would find the entry.
func TestRetryConflictsWithARunThatMovesThePosition(t *testing.T) {
	t.Parallel()
	e := newEnv(t, withDeadLetters)
	w, stop := e.exportTo(e.client, e.client, (&refusing{values: []string{"bad"}}).deliver, observers.Config{})
	defer stop()
	e.add("k", "bad")
	e.idle(w)
	e.Clock.Advance(2 * beyond)
	tx := e.begin(e.client)
	if err := e.letters()[0].Retry(e.ctx, tx); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		e.Clock.Advance(apart)
		e.add("k", "later")
		e.idle(w)
	}
	if _, err := tx.Commit(e.ctx); !errors.Is(err, percolator.ErrConflict) {
		t.Errorf("the retry ended with %v", err)
	}
	if n := len(e.letters()); n != 1 {
		t.Errorf("%d dead letters", n)
	}
}
