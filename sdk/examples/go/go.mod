module taillight-null

go 1.19
