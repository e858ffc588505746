-- The journal, weatherstation.db, as the newest program has it. The first part of each of the seven tables is the
-- seed's own (names, order, constraints and indexes: contract weather 5.1), what comes after it was added later and may
-- be null, so that the seed's programs can still write to the file.
-- A fresh file is made from this script. An older one gets what it lacks from it: journal_schema.py.

CREATE TABLE IF NOT EXISTS weather_readings (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source_node_id TEXT NOT NULL,
    source_name TEXT,
    msg_id INTEGER NOT NULL,
    source_ts_utc TEXT NOT NULL,        -- as the sender spelled it
    received_at_utc TEXT NOT NULL,      -- of the capture that was committed first
    temp_c REAL NOT NULL,
    humidity_pct REAL NOT NULL,
    pressure_hpa REAL NOT NULL,
    wind_ms REAL NOT NULL,
    wind_dir_deg INTEGER NOT NULL,
    rain_mm REAL NOT NULL,
    wind_lull_ms REAL,
    wind_gust_ms REAL,
    wind_sample_interval_s INTEGER,
    illuminance_lux REAL,
    uv_index REAL,
    solar_radiation_wm2 REAL,
    precipitation_type INTEGER,
    lightning_avg_distance_km REAL,
    lightning_strike_count INTEGER,
    battery_voltage_v REAL,
    report_interval_min INTEGER,
    local_day_rain_mm REAL,
    nearcast_rain_mm REAL,
    local_day_nearcast_rain_mm REAL,
    precipitation_analysis_type INTEGER,
    weather_timestamp INTEGER,
    raw_payload TEXT NOT NULL,
    payload_hash TEXT,
    created_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    -- added: the identity (fault B19), YYYY-MM-DDTHH:MM:SS.ffffffZ, null only where the text cannot be understood
    source_ts_canonical TEXT,
    -- added: in a file from before, the id of the row that spells the same instant and came first
    source_double_of INTEGER,
    -- added: the link, from the packet that was captured first
    snr_db REAL,
    rssi_dbm INTEGER,
    hops_away INTEGER,
    packet_id INTEGER,
    channel INTEGER,
    gateway_id TEXT,
    UNIQUE(source_node_id, source_ts_utc)
);

-- The first destination's queue. Every further one has a table delivery_queue_<name> of the same columns.
-- status: pending, retry, delivered; added: failed (refused for good, last_error says why), discarded (by a person).
CREATE TABLE IF NOT EXISTS aws_delivery_queue (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    reading_id INTEGER NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending',
    attempt_count INTEGER NOT NULL DEFAULT 0,
    next_attempt_at_utc TEXT,
    last_attempt_at_utc TEXT,
    delivered_at_utc TEXT,
    last_error TEXT,
    created_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY(reading_id) REFERENCES weather_readings(id) ON DELETE CASCADE,
    UNIQUE(reading_id)
);

CREATE TABLE IF NOT EXISTS device_health_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source_node_id TEXT NOT NULL,
    source_name TEXT,
    msg_id INTEGER,
    source_ts_utc TEXT,
    received_at_utc TEXT NOT NULL,
    status TEXT NOT NULL,
    uptime_sec INTEGER,
    ip_address TEXT,
    error_reason TEXT,
    raw_payload TEXT NOT NULL,
    created_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    dedupe_key TEXT,                    -- added (fault B18): journal_keys.py
    packet_id INTEGER
);

CREATE TABLE IF NOT EXISTS weather_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source_node_id TEXT NOT NULL,
    source_name TEXT,
    msg_id INTEGER,
    event_type TEXT NOT NULL,
    source_ts_utc TEXT,
    received_at_utc TEXT NOT NULL,
    lightning_distance_km REAL,
    lightning_energy INTEGER,
    raw_payload TEXT NOT NULL,
    payload_hash TEXT,
    created_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    dedupe_key TEXT,
    packet_id INTEGER,
    source_ts_canonical TEXT
);

CREATE TABLE IF NOT EXISTS device_telemetry_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source_node_id TEXT NOT NULL,
    source_name TEXT,
    msg_id INTEGER,
    telemetry_type TEXT NOT NULL,
    source_ts_utc TEXT,
    received_at_utc TEXT NOT NULL,
    uptime_sec INTEGER,
    firmware_revision TEXT,
    rssi INTEGER,
    hub_rssi INTEGER,
    sensor_status INTEGER,
    debug INTEGER,
    voltage REAL,
    reset_flags TEXT,
    seq INTEGER,
    fs_json TEXT,
    radio_stats_json TEXT,
    mqtt_stats_json TEXT,
    raw_payload TEXT NOT NULL,
    payload_hash TEXT,
    created_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    dedupe_key TEXT,
    packet_id INTEGER,
    source_ts_canonical TEXT
);

CREATE TABLE IF NOT EXISTS device_status_current (
    source_node_id TEXT PRIMARY KEY,
    source_name TEXT,
    last_weather_at_utc TEXT,
    last_health_at_utc TEXT,
    last_device_status_at_utc TEXT,
    last_hub_status_at_utc TEXT,
    last_status TEXT,
    derived_state TEXT,                 -- online, stale, offline, low_battery: journal_status.py
    last_telemetry_type TEXT,
    last_msg_id INTEGER,
    last_source_ts_utc TEXT,
    last_uptime_sec INTEGER,
    last_ip_address TEXT,
    last_firmware_revision TEXT,
    last_rssi INTEGER,
    last_hub_rssi INTEGER,
    last_sensor_status INTEGER,
    last_debug INTEGER,
    last_device_voltage_v REAL,
    last_reset_flags TEXT,
    last_hub_seq INTEGER,
    last_fs_json TEXT,
    last_radio_stats_json TEXT,
    last_mqtt_stats_json TEXT,
    updated_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    -- added (fault B17): the columns above mix bridge, sensor and hub; these do not
    last_heard_at_utc TEXT,
    last_event_at_utc TEXT,
    last_weather_source_ts_utc TEXT,
    last_battery_voltage_v REAL,
    last_bridge_uptime_sec INTEGER,
    last_device_uptime_sec INTEGER,
    last_device_firmware_revision TEXT,
    last_device_rssi INTEGER,
    last_hub_uptime_sec INTEGER,
    last_hub_firmware_revision TEXT,
    last_hub_own_rssi INTEGER,
    last_snr_db REAL,
    last_rssi_dbm INTEGER,
    last_hops_away INTEGER,
    -- added: when each value was said, so that an older message that comes late changes nothing
    value_times_json TEXT
);

CREATE TABLE IF NOT EXISTS ingest_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    received_at_utc TEXT NOT NULL,
    source_node_id TEXT,
    source_name TEXT,
    packet_type TEXT NOT NULL,
    reason TEXT,
    msg_id INTEGER,
    raw_payload TEXT,
    created_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    payload_hex TEXT,                   -- added: the bytes where raw_payload cannot hold them (case W2)
    packet_id INTEGER,
    channel INTEGER,
    gateway_id TEXT,
    replayed_at_utc TEXT                -- added: when a replay stored it after all
);

-- Added: telemetry that Meshtastic nodes send of their own (DESIGN.md decision 15).
CREATE TABLE IF NOT EXISTS native_telemetry (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source_node_id TEXT NOT NULL,
    source_name TEXT,
    telemetry_kind TEXT NOT NULL,       -- device_metrics, environment_metrics, ...
    telemetry_time INTEGER,             -- the node's own clock, epoch seconds; often wrong, kept for diagnosis
    received_at_utc TEXT NOT NULL,
    battery_level_pct REAL,
    voltage_v REAL,
    channel_utilization_pct REAL,
    air_util_tx_pct REAL,
    uptime_sec INTEGER,
    temperature_c REAL,
    relative_humidity_pct REAL,
    barometric_pressure_hpa REAL,
    metrics_json TEXT NOT NULL,
    snr_db REAL,
    rssi_dbm INTEGER,
    hops_away INTEGER,
    packet_id INTEGER,
    channel INTEGER,
    gateway_id TEXT,
    dedupe_key TEXT NOT NULL,
    created_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE INDEX IF NOT EXISTS idx_weather_received_at ON weather_readings(received_at_utc);
CREATE INDEX IF NOT EXISTS idx_weather_source_received ON weather_readings(source_node_id, received_at_utc);
CREATE INDEX IF NOT EXISTS idx_weather_source_msg ON weather_readings(source_node_id, msg_id);
CREATE INDEX IF NOT EXISTS idx_delivery_status_next_attempt ON aws_delivery_queue(status, next_attempt_at_utc, id);
CREATE INDEX IF NOT EXISTS idx_health_source_received ON device_health_events(source_node_id, received_at_utc);
CREATE INDEX IF NOT EXISTS idx_weather_events_source_received ON weather_events(source_node_id, received_at_utc);
CREATE INDEX IF NOT EXISTS idx_weather_events_type_received ON weather_events(event_type, received_at_utc);
CREATE INDEX IF NOT EXISTS idx_telemetry_source_received ON device_telemetry_events(source_node_id, received_at_utc);
CREATE INDEX IF NOT EXISTS idx_telemetry_type_received ON device_telemetry_events(telemetry_type, received_at_utc);
CREATE INDEX IF NOT EXISTS idx_ingest_received ON ingest_events(received_at_utc);

-- Added: identities. A row that the seed's program wrote meanwhile has null there until the next start fills it in.
CREATE UNIQUE INDEX IF NOT EXISTS idx_weather_identity
    ON weather_readings(source_node_id, source_ts_canonical) WHERE source_double_of IS NULL;
CREATE INDEX IF NOT EXISTS idx_weather_uncanonical ON weather_readings(id) WHERE source_ts_canonical IS NULL;
CREATE UNIQUE INDEX IF NOT EXISTS idx_weather_events_identity ON weather_events(source_node_id, dedupe_key);
CREATE UNIQUE INDEX IF NOT EXISTS idx_telemetry_identity ON device_telemetry_events(source_node_id, dedupe_key);
CREATE UNIQUE INDEX IF NOT EXISTS idx_health_identity ON device_health_events(source_node_id, dedupe_key);
CREATE UNIQUE INDEX IF NOT EXISTS idx_native_telemetry_identity ON native_telemetry(source_node_id, dedupe_key);
CREATE INDEX IF NOT EXISTS idx_native_telemetry_source_received ON native_telemetry(source_node_id, received_at_utc);
