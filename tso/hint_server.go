package tso

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/tso/tsopb"
)

var (
	_ Hints = (*Server)(nil)
	_ Hints = (*Client)(nil)
)

// LeaveHints implements [Hints] for callers in the same process. It does not wait:
// ErrNotLeader and ErrUnavailable mean that this server passes on no hints at present.
func (s *Server) LeaveHints(ctx context.Context, hints []Hint) (refused []uint64, err error) {
	if err := checkHints(ctx, hints); err != nil {
		return nil, err
	}
	err = s.keeps(func(t *tenure) error {
		refused = t.hints.leave(hints)
		return nil
	})
	return refused, err
}

// TakeHints implements [Hints] for callers in the same process. ErrNotLeader and
// ErrUnavailable: this server passes on no hints at present. ErrLimit: too many topics
// are asked for.
func (s *Server) TakeHints(ctx context.Context, topics []uint64, most int, wait time.Duration) (hints []Hint, err error) {
	if err := checkTakeHints(ctx, topics, most, wait); err != nil {
		return nil, err
	}
	err = s.keeps(func(t *tenure) error {
		hints, err = t.hints.await(ctx, t.ctx, topics, most, wait)
		return err
	})
	return hints, err
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
