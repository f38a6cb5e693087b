package store

import (
	"log/slog"
	"time"
)

// Listen has the connections tell what they see: silence is counted and logged, and what Bigtable
// says of how long to wait holds for all requests to a table.
func (s *Store) Listen(logger *slog.Logger) {
	g, ok := s.backend.(*google)
	if !ok {
		return
	}
	tell := func(silent bool) {
		switch {
		case s.Background.Err() != nil: // the client is closed
		case silent:
			s.Count.SilentConnections.Add(1)
			logger.Warn("a connection to Bigtable does not answer; requests go to the others", "for", quietAfter+pingWithin)
		default:
			s.Count.SilentConnections.Add(-1)
			logger.Info("a connection to Bigtable that did not answer is back, or replaced")
		}
	}
	s.Pressure.divided = g.background != g.connection
	for _, c := range []*connection{g.connection, g.background} {
		asked := func(table string, sent time.Time, err error) {
			s.Pressure.told(pressed{table, c != g.connection}, sent, err)
		}
		c.conns.tell.Store(&tell)
		c.conns.asked.Store(&asked)
	}
}
