package tso

import "github.com/gopercolator/percolator/tso/internal/record"

// checkAfter returns ErrCorrupt unless first is above the greatest timestamp that its
// caller has received before. Whoever asks has received it from this oracle, so the
// record must have been lost, or restored from a backup, in a way that could not be
// noticed when this server started. What was taken is skipped. Other callers are
// answered all the same: one that sends a wrong number must not be able to stop the
// oracle.
func (s *Server) checkAfter(first, after Timestamp) error {
	if first > after {
		return nil
	}
	s.lost.Do(func() {
		s.cfg.Logger.Error("a client has received a greater timestamp than this oracle hands out: either the client has asked another oracle, "+
			"or the record was lost or restored from a backup; then stop all servers and raise the mark (Raise) above everything that was served",
			"received", int64(after), "next", int64(first))
	})
	return record.Corruptf("the caller has received %d before, and would get %d", after, first)
}
