CREATE TABLE IF NOT EXISTS PercolatorOracle (
  Name STRING(128) NOT NULL,
  Kind STRING(16) NOT NULL,
  Version INT64 NOT NULL,
  Nonce STRING(64),
  Epoch INT64 NOT NULL,
  Holder STRING(128),
  Address STRING(512),
  LeaseNanos INT64,
  HighWater INT64 NOT NULL,
) PRIMARY KEY (Name, Kind)
