//! Texts like those of other programs and of earlier runs that a campaign begins from, one list for each reader
//! for which the repository has too few files.

/// Properties of YCSB.
pub const YCSB: &[&str] = &[
    "workload=site.ycsb.workloads.CoreWorkload\nrecordcount=1000\noperationcount=1000\n\
     readproportion=0.5\nupdateproportion=0.5\nrequestdistribution=zipfian\n",
    "recordcount=10\nscanproportion=0.95\ninsertproportion=0.05\nmaxscanlength=100\n\
     scanlengthdistribution=uniform\nfieldlengthdistribution=histogram\ninsertorder=hashed\n",
];

/// Recorded traces: one of each text format.
pub const TRACES: &[&str] = &[
    "128166372003061629,usr,0,Read,7014609920,24576,41286\n\
     128166372016382155,usr,0,Write,1317441536,8192,1963\n128166372016382100,usr,0,Read,0,512,9\n",
    "419,W,8792731648,16384,1577808144360767\n419,R,22040432640,4096,1577808144360787\n",
    "1538323200,12910952,128,0,1063\n1538323200,6338688,8,1,1063\n1538323201,0,8,1,1063\n",
    "fio version 2 iolog\n/dev/x add\n/dev/x open\n/dev/x wait 3\n/dev/x read 0 4096\n/dev/x sync 0 0\n",
    "fio version 3 iolog\n0 x add\n0 x open\n10 x write 4096 4096\n12 x trim 0 8192\n15 x datasync 0 0\n",
    "phase,workload,worker,op,target,offset_bytes,key,size_bytes,moved_bytes,count,intended_ns,origin_ns,\
     submit_ns,issued_ns,first_ns,complete_ns,sync_ns,retries,status\n\
     measure,0,0,read,0,4096,,4096,,,1000,,1010,,,2000,,,0\nmeasure,0,1,fsync,0,,,0,,,,,900,,,3000,,,0\n",
];

/// Answers of HTTP servers.
pub const HTTP: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"abc\"\r\nServer: MinIO\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nA: b\r\n\r\n",
    "HTTP/1.0 503 Slow Down\r\nConnection: close\r\n\r\n<Error><Code>SlowDown</Code></Error>",
];

/// Listings and errors of object stores.
pub const XML: &[&str] = &[
    "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>true</IsTruncated>\
     <NextContinuationToken>a&amp;b</NextContinuationToken><Contents><Key>x/1&#x41;</Key></Contents>\
     <Contents><Key><![CDATA[y]]></Key></Contents></ListBucketResult>",
    "<Error><Code>NoSuchKey</Code><Message>none</Message></Error>",
];

/// Replies of Redis.
pub const RESP: &[&str] = &[
    "+OK\r\n",
    "-ERR unknown command\r\n",
    ":42\r\n$5\r\nhello\r\n$-1\r\n",
    "*3\r\n$3\r\none\r\n:2\r\n$-1\r\n",
    "*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
];

/// What a PostgreSQL server says.
pub const POSTGRES: &[&str] = &[
    "1\0\0\0\x042\0\0\0\x04C\0\0\0\x0dUPDATE 1\0Z\0\0\0\x05I",
    "D\0\0\0\x0f\0\x01\0\0\0\x05helloC\0\0\0\x0dSELECT 1\0",
    "E\0\0\0\x17SERROR\0C42P01\0Mno\0\0Z\0\0\0\x05I",
    "R\0\0\0\x08\0\0\0\0S\0\0\0\x0dssl\0off\0\0K\0\0\0\x0c\0\0\0\x07\0\0\0\x08",
];

/// What nvme-cli prints.
pub const NVME: &[&str] = &[
    "{\"critical_warning\":0,\"temperature\":310,\"avail_spare\":100,\"percent_used\":1,\
     \"data_units_read\":1,\"data_units_written\":2,\"host_read_commands\":3,\"host_write_commands\":4,\
     \"controller_busy_time\":5,\"power_cycles\":6,\"power_on_hours\":7,\"unsafe_shutdowns\":8,\
     \"media_errors\":0,\"num_err_log_entries\":0,\"warning_temp_time\":0,\"critical_comp_time\":0,\
     \"thm_temp1_trans_count\":0,\"thm_temp2_trans_count\":0,\"thm_temp1_total_time\":0,\
     \"thm_temp2_total_time\":0}",
    "{\"errors\":[{\"error_count\":1,\"sqid\":1,\"cmdid\":2,\"status_field\":4,\"lba\":8,\"nsid\":1}]}",
    "{\"Feature Status\":1,\"Active Bucket Timer\":5,\"Active Bucket Timer Threshold\":2016,\
     \"Active Threshold A\":5,\"Active Threshold B\":10,\"Active Threshold C\":50,\
     \"Active Threshold D\":100,\"Log Page Version\":4,\
     \"Active Bucket Counter: Bucket 0\":{\"Read\":1,\"Write\":2,\"Trim\":0},\
     \"Active Bucket Counter: Bucket 1\":{\"Read\":1,\"Write\":2,\"Trim\":0},\
     \"Active Bucket Counter: Bucket 2\":{\"Read\":1,\"Write\":2,\"Trim\":0},\
     \"Active Bucket Counter: Bucket 3\":{\"Read\":1,\"Write\":2,\"Trim\":0},\
     \"Active Measured Latency: Bucket 0\":{\"Read\":7,\"Write\":0,\"Trim\":0},\
     \"Static Bucket Counter: Bucket 0\":{\"Read\":1,\"Write\":2,\"Trim\":0},\
     \"Static Bucket Counter: Bucket 1\":{\"Read\":1,\"Write\":2,\"Trim\":0},\
     \"Static Bucket Counter: Bucket 2\":{\"Read\":1,\"Write\":2,\"Trim\":0},\
     \"Static Bucket Counter: Bucket 3\":{\"Read\":1,\"Write\":2,\"Trim\":0}}",
];

/// Tables of bus analyzers: one by the mapping of docs/bus-mapping.toml, one with other headings.
pub const BUS: &[&str] = &[
    "Start Time,Response Time,Opcode,SLBA,NLB,NSID\n1000001,100,Read,0x100,7,1\n2500000,100,Write,512,0,1\n",
    "\"Start\";\"Opcode\"\n\"1,000.5\";\"0x02\"\n",
];

/// `series.json` of a sweep.
pub const SERIES: &[&str] =
    &["{\"schema\":1,\"taillight\":\"0.1.0\",\"method\":\"sweep\",\"job\":\"a\",\"seed\":7,\
     \"status\":\"complete\",\"command\":[\"run\",\"a.toml\"],\"directory\":\"/tmp\",\"axes\":[\
     {\"path\":\"workload.0.queue_depth\",\"values\":[1,2]}],\"points\":[{\"id\":\"1\",\"round\":1,\
     \"role\":\"sweep\",\"coordinates\":{\"workload.0.queue_depth\":1},\"status\":\"complete\",\
     \"run\":\"001\",\"values\":{\"iops\":1e5},\"exit\":0}],\"decisions\":[{\"rule\":\"knee\",\
     \"round\":1,\"values\":{},\"verdict\":\"none\",\"text\":\"too few\"}],\"exit\":0}"];

/// Marks of files and of a database.
pub const OWNER: &[&str] = &[
    "{\"taillight_owner\":1,\"files\":[{\"name\":\"data\",\"inode\":12,\"device\":\"254:0\",\
     \"size\":4096,\"run_id\":\"a\",\"keep\":true,\"modified_ns\":1700000000000000000}]}",
    "{\"taillight_owner\":1,\"files\":[],\"store\":{\"driver\":\"rocksdb\",\"inode\":2,\
     \"device\":\"8:1\",\"run_id\":\"a\",\"keep\":false,\"form\":\"8 be\",\"records\":100}}",
];

/// Credentials as AWS keeps them.
pub const CREDENTIALS: &[&str] =
    &["# mine\n[default]\naws_access_key_id = AKID\naws_secret_access_key = secret/+=\n\n\
     [other]\naws_session_token = token\n"];

/// Options as RocksDB writes them.
pub const ROCKSDB: &[&str] = &[
    "# made\n[Version]\n  rocksdb_version=7.8.3\n[DBOptions]\n  max_open_files=7\n\
     [CFOptions \"default\"]\n  write_buffer_size=1\n  opts={x=1;y=2;}\n  list=p;q\n  \
     table_factory=BlockBasedTable\n[TableOptions/BlockBasedTable \"default\"]\n  block_size=4096\n",
];
