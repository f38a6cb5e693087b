package tso

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/tso/coordination"
	"github.com/gopercolator/percolator/tso/tsopb"
)

var (
	_ coordination.Hints    = (*Server)(nil)
	_ coordination.Hints    = (*Client)(nil)
	_ coordination.Handover = (*Server)(nil)
	_ coordination.Handover = (*Client)(nil)
)

// LeaveHints implements [coordination.Hints] for callers in the same process. It does not wait:
// ErrNotLeader and ErrUnavailable mean that this server forwards no hints at present.
func (s *Server) LeaveHints(ctx context.Context, hints []coordination.Hint) (refused []uint64, err error) {
	if err := checkHints(ctx, hints); err != nil {
		return nil, err
	}
	err = s.keeps(func(t *tenure) error {
		refused = t.hints.leave(peerOf(ctx), hints)
		return nil
	})
	return refused, err
}

// TakeHints implements [coordination.Hints] for callers in the same process. ErrNotLeader and
// ErrUnavailable: this server forwards no hints at present. ErrLimit: too many topics are asked
// for.
func (s *Server) TakeHints(ctx context.Context, topics []uint64, most int, wait time.Duration) (hints []coordination.Hint, err error) {
	if err := checkTakeHints(ctx, topics, most, wait); err != nil {
		return nil, err
	}
	err = s.keeps(func(t *tenure) error {
		hints, err = t.hints.await(ctx, t.ctx, topics, most, wait)
		return err
	})
	return hints, err
}

// HandHints implements [coordination.Handover] for callers in the same process. It does not wait:
// ErrNotLeader and ErrUnavailable mean that this server forwards no hints at present.
func (s *Server) HandHints(ctx context.Context, hints []coordination.Hint) (taken []int, err error) {
	if err := checkHints(ctx, hints); err != nil {
		return nil, err
	}
	err = s.keeps(func(t *tenure) error {
		taken = t.hints.hand(hints)
		return nil
	})
	return taken, err
}

// hintService is the gRPC service of a Server's hints.
type hintService struct {
	tsopb.UnimplementedHintsServer
	server *Server
}

// LeaveHints implements the service.
func (s *hintService) LeaveHints(ctx context.Context, req *tsopb.LeaveHintsRequest) (*tsopb.LeaveHintsResponse, error) {
	refused, err := s.server.LeaveHints(ctx, hintsFromProto(req.GetHints()))
	return &tsopb.LeaveHintsResponse{Refused: refused}, err
}

// TakeHints implements the service.
func (s *hintService) TakeHints(ctx context.Context, req *tsopb.TakeHintsRequest) (*tsopb.TakeHintsResponse, error) {
	// Out of bounds stays out of bounds, without an overflow.
	wait := time.Duration(max(-1, min(req.GetWaitMs(), 2*maxHintWait.Milliseconds()))) * time.Millisecond
	hints, err := s.server.TakeHints(ctx, req.GetTopics(), int(req.GetMost()), wait)
	return &tsopb.TakeHintsResponse{Hints: hintsToProto(hints)}, err
}

// HandHints implements the service.
func (s *hintService) HandHints(ctx context.Context, req *tsopb.HandHintsRequest) (*tsopb.HandHintsResponse, error) {
	taken, err := s.server.HandHints(ctx, hintsFromProto(req.GetHints()))
	return &tsopb.HandHintsResponse{Taken: ordered.Map(taken, func(at int) uint32 { return uint32(at) })}, err
}

// maxHintsBytes is how large an answer with hints can be.
const maxHintsBytes = maxHintsData + maxHintsAtOnce*32 + 1<<10

// LeaveHints implements [coordination.Hints]. ErrUnsupported: the oracle forwards no hints.
// ErrUnavailable, and ctx's error: the oracle was unreachable.
func (c *Client) LeaveHints(ctx context.Context, hints []coordination.Hint) ([]uint64, error) {
	if err := checkHints(ctx, hints); err != nil {
		return nil, err
	}
	resp, err := callLeader(ctx, c, 0, "leaving hints", func(ctx context.Context, p *peer) (*tsopb.LeaveHintsResponse, error) {
		return p.hints.LeaveHints(ctx, &tsopb.LeaveHintsRequest{Hints: hintsToProto(hints)})
	})
	return resp.GetRefused(), err
}

// TakeHints implements [coordination.Hints]. Hints in flight are lost when the connection breaks.
// ErrUnsupported: the oracle forwards no hints. ErrLimit: too many topics are requested.
// ErrUnavailable, and ctx's error: the oracle was unreachable.
func (c *Client) TakeHints(ctx context.Context, topics []uint64, most int, wait time.Duration) ([]coordination.Hint, error) {
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

// HandHints implements [coordination.Handover]. ErrUnsupported: the oracle hands no hints over.
// ErrUnavailable, and ctx's error: the oracle was unreachable, and may have handed over any of
// them.
func (c *Client) HandHints(ctx context.Context, hints []coordination.Hint) (taken []int, err error) {
	if err := checkHints(ctx, hints); err != nil {
		return nil, err
	}
	resp, err := callLeader(ctx, c, 0, "handing hints over", func(ctx context.Context, p *peer) (*tsopb.HandHintsResponse, error) {
		return p.hints.HandHints(ctx, &tsopb.HandHintsRequest{Hints: hintsToProto(hints)})
	})
	for _, at := range resp.GetTaken() {
		if int(at) >= len(hints) {
			return nil, fmt.Errorf("tso: handing hints over: %w: the server names hint %d of %d", ErrUnavailable, at, len(hints))
		}
		taken = append(taken, int(at))
	}
	return taken, err
}

func hintsToProto(hints []coordination.Hint) []*tsopb.Hint {
	return ordered.Map(hints, func(h coordination.Hint) *tsopb.Hint { return &tsopb.Hint{Topic: h.Topic, Data: []byte(h.Data)} })
}

func hintsFromProto(hints []*tsopb.Hint) []coordination.Hint {
	return ordered.Map(hints, func(h *tsopb.Hint) coordination.Hint {
		return coordination.Hint{Topic: h.GetTopic(), Data: string(h.GetData())}
	})
}
