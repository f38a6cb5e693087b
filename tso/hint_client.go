package tso

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/tso/tsopb"
)

// maxHintsBytes is how large an answer with hints can be.
const maxHintsBytes = maxHintsData + maxHintsAtOnce*32 + 1<<10

// LeaveHints implements [Hints]. ErrUnsupported: the oracle passes on no hints.
// ErrUnavailable, and ctx's error: the oracle could not be asked.
func (c *Client) LeaveHints(ctx context.Context, hints []Hint) ([]uint64, error) {
	if err := checkHints(ctx, hints); err != nil {
		return nil, err
	}
	req := &tsopb.LeaveHintsRequest{Hints: make([]*tsopb.Hint, len(hints))}
	for i, h := range hints {
		req.Hints[i] = &tsopb.Hint{Topic: h.Topic, Data: []byte(h.Data)}
	}
	var refused []uint64
	err := c.callLeader(ctx, "leaving hints", func(ctx context.Context, conn grpc.ClientConnInterface) error {
		resp, err := tsopb.NewHintsClient(conn).LeaveHints(ctx, req)
		refused = resp.GetRefused()
		return err
	})
	return refused, err
}

// TakeHints implements [Hints]. Hints that are on the way when the connection breaks
// are lost. ErrUnsupported: the oracle passes on no hints. ErrLimit: too many topics are
// asked for. ErrUnavailable, and ctx's error: the oracle could not be asked.
func (c *Client) TakeHints(ctx context.Context, topics []uint64, most int, wait time.Duration) ([]Hint, error) {
	if err := checkTakeHints(ctx, topics, most, wait); err != nil {
		return nil, err
	}
	req := &tsopb.TakeHintsRequest{Topics: topics, Most: uint32(most), WaitMs: wait.Milliseconds()}
	var hints []Hint
	err := c.callLeaderFor(ctx, wait, "taking hints", func(ctx context.Context, conn grpc.ClientConnInterface) error {
		resp, err := tsopb.NewHintsClient(conn).TakeHints(ctx, req, grpc.MaxCallRecvMsgSize(maxHintsBytes))
		if len(resp.GetHints()) > most {
			return fmt.Errorf("the server answered with %d hints to a question for %d", len(resp.GetHints()), most)
		}
		hints = nil
		for _, h := range resp.GetHints() {
			hints = append(hints, Hint{h.GetTopic(), string(h.GetData())})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return hints, nil
}
