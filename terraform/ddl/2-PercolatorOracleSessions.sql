CREATE TABLE IF NOT EXISTS PercolatorOracleSessions (
  Name STRING(128) NOT NULL,
  Session STRING(64) NOT NULL,
) PRIMARY KEY (Name, Session)
