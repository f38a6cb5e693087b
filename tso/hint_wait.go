package tso

import (
	"container/list"
	"context"
	"fmt"
	"time"
)

// hintTaker is a call that waits. wake has room for one.
type hintTaker struct {
	peer  string
	wake  chan struct{}
	most  int
	given []Hint // handed to it
	bytes int    // of their data

	// places are where it stands in the queues of its topics, so that to leave them costs no more
	// than to join them, however many wait.
	places []hintPlace
}

// hintPlace is a taker's place in the queue of a topic, which is kept for as long as it has one.
type hintPlace struct {
	topic   *hintTopic
	element *list.Element
}

// register puts taker into the queues of the topics. ErrLimit: too many wait. The caller holds mu.
func (t *hintTable) register(topics []uint64, taker *hintTaker) error {
	if !t.places.Take(taker.peer, len(topics)) {
		return fmt.Errorf("tso: taking hints: %w: too many wait for hints of too many topics", ErrLimit)
	}
	taker.places = make([]hintPlace, len(topics))
	for i, name := range topics {
		topic := t.topics[name]
		taker.places[i] = hintPlace{topic, topic.takers.PushBack(taker)}
	}
	return nil
}

// leaveOff ends the waiting of taker, and returns what it was given. If a hint woke it that it does
// not take, leaveOff wakes another.
func (t *hintTable) leaveOff(taker *hintTaker) (given []Hint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.mono()
	for _, place := range taker.places {
		place.topic.asked = now
		place.topic.takers.Remove(place.element)
		if len(place.topic.waiting) > 0 {
			place.topic.wakeOne()
		}
	}
	t.places.Release(taker.peer, len(taker.places))
	return taker.given
}

// wakeOne wakes the taker that has waited longest. One that is already awake takes what there is.
func (t *hintTopic) wakeOne() {
	if first := t.takers.Front(); first != nil {
		wake(first.Value.(*hintTaker).wake)
		t.takers.MoveToBack(first)
	}
}

// hand gives hints to takers that wait and have room for them, in turn.
func (t *hintTable) hand(hints []Hint) (taken []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, h := range hints {
		if topic := t.topics[h.Topic]; topic != nil && topic.give(h) {
			taken = append(taken, i)
		}
	}
	return taken
}

// give gives a hint to the taker with room for it that has waited longest.
func (t *hintTopic) give(h Hint) bool {
	for e := t.takers.Front(); e != nil; e = e.Next() {
		taker := e.Value.(*hintTaker)
		if len(taker.given) < taker.most && taker.bytes+len(h.Data) <= maxHintsData {
			taker.given = append(taker.given, h)
			taker.bytes += len(h.Data)
			wake(taker.wake)
			t.takers.MoveToBack(e)
			return true
		}
	}
	return false
}

// await takes hints, and waits for the first until wait has passed or one of the two contexts has
// ended.
func (t *hintTable) await(ctx, tenure context.Context, topics []uint64, most int, wait time.Duration) ([]Hint, error) {
	peer := peerOf(ctx)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		taker := &hintTaker{peer: peer, wake: make(chan struct{}, 1), most: most}
		hints, err := t.take(topics, taker)
		if len(hints) > 0 || err != nil {
			return hints, err
		}
		up := false
		select {
		case <-taker.wake:
		case <-timer.C:
			up = true
		case <-ctx.Done():
			err = fmt.Errorf("tso: taking hints: %w", ctx.Err())
		case <-tenure.Done():
			err = &NotLeaderError{}
		}
		given := t.leaveOff(taker)
		switch {
		case err != nil:
			t.hand(given) // it was not there to receive them
			return nil, err
		case up || len(given) > 0:
			return given, nil
		}
	}
}
