"""Run PSTStream in Airflow: the operators, tasks and defaults of the DAGs in dags/."""
