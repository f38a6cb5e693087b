package tso

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/serve"
	"github.com/gopercolator/percolator/tso/coordination"
)

// Limits of hints. How many there may be is in [ServerConfig].
const (
	maxHintsAtOnce = 256      // in one call
	maxHintsData   = 48 << 10 // bytes, in one call
	maxHintTopics  = 1024     // in one call
	maxHintData    = 8192     // bytes
	maxHintWait    = 30 * time.Second

	// maxHintBytes bounds the data of all hints that wait.
	maxHintBytes = 32 << 20
	// maxTopics is how many topics may be requested.
	maxTopics = 16384
	// maxHintPlaces is how many places in the queues of topics all takers that wait have together.
	// Each takes some 60 bytes.
	maxHintPlaces = 1 << 20
	// hintInterest is how long after the last request for a topic its hints are kept.
	hintInterest = 10 * time.Second
)

// hintTable is the hints of one term of leadership.
type hintTable struct {
	mono   func() time.Duration
	places *serve.Quota // in queues of topics
	named  *serve.Quota // topics, by the peer that has requested them first
	count  *serve.Quota // of hints, by the peer that has left them
	bytes  *serve.Quota // of their data

	mu     sync.Mutex
	topics map[uint64]*hintTopic
}

// hintTopic is the hints of a topic that was requested.
type hintTopic struct {
	peer    string // that has requested it first
	waiting []leftHint
	takers  list.List     // *hintTaker that wait for a hint
	asked   time.Duration // of the last request, by the monotonic clock
}

// leftHint is the data of a hint that waits.
type leftHint struct{ data, peer string }

func newHintTable(most, share int, mono func() time.Duration) *hintTable {
	return &hintTable{
		mono: mono, places: serve.NewSharedQuota(maxHintPlaces, share), named: serve.NewSharedQuota(maxTopics, share),
		count: serve.NewSharedQuota(most, share), bytes: serve.NewSharedQuota(maxHintBytes, share), topics: make(map[uint64]*hintTopic),
	}
}

// checkHints returns an error unless hints may be left.
func checkHints(ctx context.Context, hints []coordination.Hint) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("tso: leaving hints: %w", ctx.Err())
	case len(hints) > maxHintsAtOnce:
		return fmt.Errorf("tso: %w: %d hints, more than %d", ErrInvalidArgument, len(hints), maxHintsAtOnce)
	}
	size := 0
	for _, h := range hints {
		if size += len(h.Data); len(h.Data) > maxHintData || size > maxHintsData {
			return fmt.Errorf("tso: %w: a hint of more than %d bytes, or hints of more than %d", ErrInvalidArgument, maxHintData, maxHintsData)
		}
	}
	return nil
}

// checkTakeHints returns an error unless a call may take hints like this.
func checkTakeHints(ctx context.Context, topics []uint64, most int, wait time.Duration) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("tso: taking hints: %w", ctx.Err())
	case len(topics) > maxHintTopics:
		return fmt.Errorf("tso: %w: hints of %d topics, more than %d", ErrInvalidArgument, len(topics), maxHintTopics)
	case most < 1 || most > maxHintsAtOnce:
		return fmt.Errorf("tso: %w: taking %d hints, not 1 to %d", ErrInvalidArgument, most, maxHintsAtOnce)
	case wait < 0 || wait > maxHintWait:
		return fmt.Errorf("tso: %w: waiting %v for hints, not 0 to %v", ErrInvalidArgument, wait, maxHintWait)
	}
	return nil
}

// leave adds hints of a peer and wakes a taker for each.
func (t *hintTable) leave(peer string, hints []coordination.Hint) (refused []uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.mono()
	for _, h := range hints {
		topic := t.topics[h.Topic]
		if topic == nil || !topic.wanted(now) || !t.admit(peer, len(h.Data)) {
			if !slices.Contains(refused, h.Topic) {
				refused = append(refused, h.Topic)
			}
			continue
		}
		topic.waiting = append(topic.waiting, leftHint{h.Data, peer})
		topic.wakeOne()
	}
	return refused
}

// admit counts a hint of so many bytes, if its peer may leave one more.
func (t *hintTable) admit(peer string, bytes int) bool {
	if !t.count.Take(peer, 1) {
		return false
	}
	if !t.bytes.Take(peer, bytes) {
		t.count.Release(peer, 1)
		return false
	}
	return true
}

// wanted reports whether a call waits for hints of the topic, or will come again.
func (t *hintTopic) wanted(now time.Duration) bool {
	return t.takers.Len() > 0 || now-t.asked < hintInterest
}

// take takes what there is of the topics, or registers taker for all of them. ErrLimit: there are
// too many topics, or too many takers wait.
func (t *hintTable) take(topics []uint64, taker *hintTaker) ([]coordination.Hint, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ask(taker.peer, topics); err != nil {
		return nil, err
	}
	var out []coordination.Hint
	size := 0
	for _, name := range topics {
		topic := t.topics[name]
		n := 0
		for ; n < len(topic.waiting) && len(out) < taker.most && size+len(topic.waiting[n].data) <= maxHintsData; n++ {
			out = append(out, coordination.Hint{Topic: name, Data: topic.waiting[n].data})
			size += len(topic.waiting[n].data)
		}
		t.drop(topic, n)
		// The takers may not have been woken for these.
		if len(topic.waiting) > 0 && topic.takers.Len() > 0 {
			topic.wakeOne()
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	return nil, t.register(topics, taker)
}

// ask notes that peer wants hints of the topics. The caller holds mu.
func (t *hintTable) ask(peer string, topics []uint64) error {
	now := t.mono()
	for _, name := range topics {
		topic := t.topics[name]
		if topic == nil {
			if !t.named.Take(peer, 1) {
				return fmt.Errorf("tso: taking hints: %w: there are %d topics", ErrLimit, len(t.topics))
			}
			topic = &hintTopic{peer: peer}
			t.topics[name] = topic
		}
		topic.asked = now
	}
	return nil
}

// drop removes the first n hints of a topic.
func (t *hintTable) drop(topic *hintTopic, n int) {
	for _, h := range topic.waiting[:n] {
		t.count.Release(h.peer, 1)
		t.bytes.Release(h.peer, len(h.data))
	}
	if topic.waiting = topic.waiting[n:]; len(topic.waiting) == 0 {
		topic.waiting = nil
	}
}

// run forgets topics that no one asks for any more, until ctx ends.
func (t *hintTable) run(ctx context.Context) {
	for sleep(ctx, hintInterest) == nil {
		t.sweep()
	}
}

func (t *hintTable) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.mono()
	for name, topic := range t.topics {
		if !topic.wanted(now) {
			t.drop(topic, len(topic.waiting))
			t.named.Release(topic.peer, 1)
			delete(t.topics, name)
		}
	}
}

// hintTaker is a call that waits. wake has room for one.
type hintTaker struct {
	peer  string
	wake  chan struct{}
	most  int
	given []coordination.Hint // handed to it
	bytes int                 // of their data

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
func (t *hintTable) leaveOff(taker *hintTaker) (given []coordination.Hint) {
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
func (t *hintTable) hand(hints []coordination.Hint) (taken []int) {
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
func (t *hintTopic) give(h coordination.Hint) bool {
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
func (t *hintTable) await(ctx, tenure context.Context, topics []uint64, most int, wait time.Duration) ([]coordination.Hint, error) {
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
