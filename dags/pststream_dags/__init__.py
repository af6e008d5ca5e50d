"""What the DAGs share. Named so that it can lie beside other teams' files in one DAG folder."""
