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

// LeaveHints implements [Hints]. ErrUnsupported: the oracle passes on no hints. ErrUnavailable, and
// ctx's error: the oracle could not be asked.
func (c *Client) LeaveHints(ctx context.Context, hints []Hint) ([]uint64, error) {
	if err := checkHints(ctx, hints); err != nil {
		return nil, err
	}
	resp, err := callLeader(ctx, c, 0, "leaving hints", func(ctx context.Context, p *peer) (*tsopb.LeaveHintsResponse, error) {
		return p.hints.LeaveHints(ctx, &tsopb.LeaveHintsRequest{Hints: hintsToProto(hints)})
	})
	return resp.GetRefused(), err
}

// TakeHints implements [Hints]. Hints that are under way when the connection breaks are lost.
// ErrUnsupported: the oracle passes on no hints. ErrLimit: too many topics are asked for.
// ErrUnavailable, and ctx's error: the oracle could not be asked.
func (c *Client) TakeHints(ctx context.Context, topics []uint64, most int, wait time.Duration) ([]Hint, error) {
	if err := checkTakeHints(ctx, topics, most, wait); err != nil {
		return nil, err
	}
	req := &tsopb.TakeHintsRequest{Topics: topics, Most: uint32(most), WaitMs: wait.Milliseconds()}
	resp, err := callLeader(ctx, c, wait, "taking hints", func(ctx context.Context, p *peer) (*tsopb.TakeHintsResponse, error) {
		resp, err := p.hints.TakeHints(ctx, req, grpc.MaxCallRecvMsgSize(maxHintsBytes))
		if n := len(resp.GetHints()); n > most {
			err = fmt.Errorf("the server answered with %d hints to a question for %d", n, most)
		}
		return resp, err
	})
	return hintsFromProto(resp.GetHints()), err
}

func hintsToProto(hints []Hint) []*tsopb.Hint {
	out := make([]*tsopb.Hint, len(hints))
	for i, h := range hints {
		out[i] = &tsopb.Hint{Topic: h.Topic, Data: []byte(h.Data)}
	}
	return out
}

func hintsFromProto(hints []*tsopb.Hint) (out []Hint) {
	for _, h := range hints {
		out = append(out, Hint{h.GetTopic(), string(h.GetData())})
	}
	return out
}
